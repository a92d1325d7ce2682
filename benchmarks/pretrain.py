"""Words a second of pretraining a biLM of en_elmo_sm's size, beside a plain PyTorch loop.

    python benchmarks/pretrain.py run
    python benchmarks/pretrain.py table

Steps of configs/pretrain_en_elmo_sm.cfg: characters to weights, its sampled softmax, dropout and Adam.
The plain loop (plain_pretraining.py) reads the same text in the same windows with the same samples. Ways
take turns. "Of the products' limit": the time that all matrix products and convolutions of the steps
would take at the highest rate of float32 products measured in the same run with as many threads
(gemm.py), divided by the time that the steps took.
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gemm
import torch
import typer
from common import (
    DATA,
    RESULTS,
    TINY,
    Reading,
    Section,
    print_section,
    print_table,
    read_results,
    spread,
)
from plain_pretraining import PlainTrainer
from spacy.util import load_config
from torch.utils.flop_counter import FlopCounterMode

from spacy_elmo.pretraining.config import resolve
from spacy_elmo.pretraining.setup import make_trainer
from spacy_elmo.pretraining.trainer import Trainer

OUTPUT = RESULTS / "pretrain.json"
CONFIG = Path(__file__).parents[1] / "configs" / "pretrain_en_elmo_sm.cfg"
CORPUS = DATA / "pretrain-en"
THREADS = (1, 2)
PLAIN, LIMIT = "plain PyTorch", "products' limit"
PRECISIONS = ("float32", "bfloat16")
app = typer.Typer(help=__doc__, no_args_is_help=True, rich_markup_mode=None)


@app.command()
def run(
    train: Path = typer.Option(CORPUS / "train-000.txt.xz", help="As `spacy elmo pretrain` reads"),
    dev: Path = typer.Option(CORPUS / "dev.txt.xz", help="Likewise; only the config wants it"),
    steps: int = typer.Option(6, help="Of a reading"),
    repeats: int = typer.Option(3, help="Readings of each way"),
    output: Path = typer.Option(OUTPUT, help="Where readings are, and are added"),
    quick: bool = typer.Option(False, help="A tiny biLM: only to see that it runs"),
) -> None:
    """Train for some steps in each way."""
    with tempfile.TemporaryDirectory() as name:
        trainers = {
            precision: _trainer(train, dev, precision, Path(name), quick)
            for precision in PRECISIONS
        }
        full = trainers["float32"]
        settings = {
            "steps": steps,
            "words of a step": full.settings.n_streams * full.settings.window,
            "vocabulary": len(full.vocabulary),
            "samples": full.settings.n_samples,
        }
        section = Section(output, "pretraining", settings)
        steppers: dict[str, Callable[[], object]] = {
            precision: partial(next, trainer.run()) for precision, trainer in trainers.items()
        }
        # Of a step, which is a little different each time.
        counts = [_count_flops(steppers["float32"]) for _ in range(2)]
        ways: dict[str, Callable[[], Reading]] = {}
        for threads in THREADS:
            brief = {"rows": (64,), "seconds": 0.01} if quick else {"rows": (128, 512, 2560)}
            peak = partial(gemm.peak, full.model.bilm.config, **brief)
            ways[_name(LIMIT, threads)] = partial(_with_threads, threads, peak)
            for precision, step in steppers.items():
                read = partial(_measure, trainers[precision], step, steps, statistics.mean(counts))
                ways[_name(precision, threads)] = partial(_with_threads, threads, read)
            plain = partial(_measure_plain, PlainTrainer(full), steps)
            ways[_name(PLAIN, threads)] = partial(_with_threads, threads, plain)
        section.take_turns(ways, dict.fromkeys(ways, repeats))
    print_table(*_rows(section.values))


@app.command()
def table(output: Path = typer.Option(OUTPUT, help="Where readings are")) -> None:
    """Print the readings in Markdown."""
    for name, section in read_results(output).items():
        print_section(name, section)
        print_table(*_rows(section))


def _trainer(train: Path, dev: Path, precision: str, place: Path, quick: bool) -> Trainer:
    config = load_config(CONFIG)
    config["paths"] = {"raw_text": str(train), "dev_text": str(dev)}
    config["system"] |= {"precision": precision, "threads": 0, "device": "cpu"}
    # Neither happens in a benchmark.
    config["pretraining"] |= {"eval_frequency": 10**9, "checkpoint_frequency": 10**9}
    if quick:
        config["bilm"] = TINY.to_dict()
        config["pretraining"] |= {"n_streams": 4, "window": 5, "n_samples": 8}
        config["pretraining"]["vocabulary"]["min_count"] = 1
    return make_trainer(resolve(config), place / precision)


def _name(way: str, threads: int) -> str:
    return f"{way}, {threads} thread{'s' * (threads > 1)}"


def _with_threads(threads: int, measure: Callable[[], Reading]) -> Reading:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        return measure()
    finally:
        torch.set_num_threads(before)


def _count_flops(step: Callable[[], object]) -> float:
    """In 10**9: a multiplication and an addition each."""
    with FlopCounterMode(display=False) as counter:
        step()
    return counter.get_total_flops() / 1e9


def _measure(trainer: Trainer, step: Callable[[], object], steps: int, gflop: float) -> Reading:
    step()
    words, start = trainer.words, time.perf_counter()
    for _ in range(steps):
        step()
    seconds = time.perf_counter() - start
    words = trainer.words - words
    return {"seconds": seconds, "words/s": words / seconds, "GFLOP": steps * gflop}


def _measure_plain(trainer: PlainTrainer, steps: int) -> Reading:
    trainer.step()
    start = time.perf_counter()
    words = sum(trainer.step() for _ in range(steps))
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "words/s": words / seconds}


def _rows(section: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    readings, rows = section["readings"], []
    for threads in THREADS:
        limits = [each["GFLOP/s"] for each in readings.get(_name(LIMIT, threads), [])]
        plain = [each["words/s"] for each in readings.get(_name(PLAIN, threads), [])]
        for way in (*PRECISIONS, PLAIN):
            taken = readings.get(_name(way, threads), [])
            speeds = [each["words/s"] for each in taken]
            shares = [
                100 * each["GFLOP"] / limit / each["seconds"]
                for each, limit in zip(taken, limits, strict=False)
                if way == "float32"
            ]
            both = plain and speeds
            ratio = f"{statistics.median(speeds) / statistics.median(plain):.2f}" if both else ""
            rows.append([_name(way, threads), spread(speeds), ratio, spread(shares)])
        rows.append([f"limit, {_name('GFLOP/s', threads)}: {spread(limits)}", "", "", ""])
    return ["", "words/s", "times plain PyTorch", "% of the products' limit"], rows


if __name__ == "__main__":
    app()
