"""Words a second of a full-size biLM of random weights, beside other programs that read ELMo's files.

    python benchmarks/embed.py run --sentences 256
    python benchmarks/embed.py run --sentences 2048
    python benchmarks/embed.py run --allennlp scratch/bin/python   # see embed_with_allennlp.py
    python benchmarks/embed.py latency
    python benchmarks/embed.py table

Each program has the weights in memory and has read a sentence before. It takes a list of sentences and
gives all layers of each; ways take turns. The others carry the LSTMs' states from batch to batch, so
that their sums differ from ours and from reading to reading. Words are counted without the boundaries.
"Of the products' limit": the time that all products with weights and all convolutions of the reading
would take at the highest rate of float32 products measured in the same turn (gemm.py), divided by the
time it took.
"""

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import gemm
import torch
import typer
from common import (
    ORIGINAL,
    RESULTS,
    TEXT,
    TINY,
    Reading,
    Section,
    Worker,
    bilm_of_trained_scale,
    describe_text,
    print_section,
    print_table,
    read_results,
    sentences,
    spread,
)

from spacy_elmo import BiLM, Embedder
from spacy_elmo.bilm.formats import hdf5
from spacy_elmo.bilm.precision import PRECISIONS, Precision

BUDGETS = (1024, 4096, 16384)
DEFAULT_BUDGET = 4096
LIMIT = "products' limit"
HERE = Path(__file__).parent
# What a user would run, and the batch sizes to choose from: by length, in the order of the text.
RIVALS = {"AllenNLP": ((32, 64, 128, 256), (32, 64)), "simple_elmo": ((32, 128), (32,))}
LATENCY_WORDS = 12
app = typer.Typer(help=__doc__, no_args_is_help=True, rich_markup_mode=None)

Ways = dict[str, Callable[[], Reading]]


@app.command()
def run(
    number: int = typer.Option(256, "--sentences", help="Sentences from the text's beginning"),
    text: Path = typer.Option(TEXT, help="CoNLL-U, or a tokenized sentence a line"),
    threads: int = typer.Option(2, help="Of each program"),
    repeats: int = typer.Option(3, help="Readings of each way of ours"),
    rival_repeats: int = typer.Option(2, help="Readings of each way of the others"),
    allennlp: Path | None = typer.Option(None, help="The Python of an environment with AllenNLP"),
    simple_elmo: Path | None = typer.Option(None, help="Likewise with simple_elmo"),
    sizes: list[int] = typer.Option([32, 64, 128, 256], help="Of the others' batches by length"),
    document_order: bool = typer.Option(True, help="Measure the others in document order too"),
    output: Path = typer.Option(RESULTS / "embed.json", help="Where readings are, and are added"),
    quick: bool = typer.Option(False, help="A tiny biLM: only to see that it runs"),
) -> None:
    """Measure speed on a text."""
    lines = sentences(text, number)
    torch.set_num_threads(threads)
    bilm = bilm_of_trained_scale(TINY if quick else ORIGINAL)
    settings = {"text": describe_text(lines), "threads": threads, "biLM": _size(quick)}
    section = Section(output, f"{number} sentences", settings)
    ours: Ways = {LIMIT: partial(gemm.peak, bilm.config, **_brief(quick))}
    for precision in PRECISIONS:
        for budget in BUDGETS if precision == "float32" else (DEFAULT_BUDGET,):
            ours[f"{precision}, {budget} words"] = partial(_read, bilm, precision, budget, lines)
    with _rivals(bilm, {"AllenNLP": allennlp, "simple_elmo": simple_elmo}, threads) as workers:
        theirs: Ways = {}
        for name, worker in workers.items():
            by_length, in_order = RIVALS[name]
            for size in sorted(set(by_length) & set(sizes)):
                theirs[f"{name}, by length, {size}"] = _asking(worker, lines, size, True)
            for size in in_order if document_order else ():
                theirs[f"{name}, document order, {size}"] = _asking(worker, lines, size, False)
        section.take_turns(
            ours | theirs,
            dict.fromkeys(ours, repeats) | dict.fromkeys(theirs, rival_repeats),
        )
    print_table(*_speeds(section.values))


@app.command()
def latency(
    text: Path = typer.Option(TEXT, help="CoNLL-U, or a tokenized sentence a line"),
    number: int = typer.Option(10, "--sentences", help=f"Of {LATENCY_WORDS} words"),
    threads: int = typer.Option(2, help="Of each program"),
    repeats: int = typer.Option(3, help="Turns"),
    allennlp: Path | None = typer.Option(None, help="The Python of an environment with AllenNLP"),
    simple_elmo: Path | None = typer.Option(None, help="Likewise with simple_elmo"),
    output: Path = typer.Option(RESULTS / "embed.json", help="Where readings are, and are added"),
    quick: bool = typer.Option(False, help="A tiny biLM: only to see that it runs"),
) -> None:
    """Milliseconds of one sentence: different ones, one after the other; their median."""
    lines = [line for line in sentences(text) if len(line) == LATENCY_WORDS][:number]
    if not lines:
        raise SystemExit(f"{text.name} has no sentence of {LATENCY_WORDS} words: give another.")
    torch.set_num_threads(threads)
    bilm = bilm_of_trained_scale(TINY if quick else ORIGINAL)
    settings = {"text": describe_text(lines), "threads": threads, "biLM": _size(quick)}
    section = Section(output, "one sentence", settings)
    ways: Ways = {
        precision: partial(_read_singly, bilm, precision, lines) for precision in PRECISIONS
    }
    with _rivals(bilm, {"AllenNLP": allennlp, "simple_elmo": simple_elmo}, threads) as workers:
        for name, worker in workers.items():
            ways[name] = partial(_ask_singly, worker, lines)
        section.take_turns(ways, dict.fromkeys(ways, repeats))
    print_table(*_latencies(section.values))


@app.command()
def table(output: Path = typer.Option(RESULTS / "embed.json", help="Where readings are")) -> None:
    """Print the readings in Markdown."""
    for name, section in read_results(output).items():
        print_section(name, section)
        print_table(*(_latencies if name == "one sentence" else _speeds)(section))


def _size(quick: bool) -> str:
    return "tiny" if quick else "original size"


def _brief(quick: bool) -> dict[str, Any]:
    return {"rows": (64,), "seconds": 0.01} if quick else {}


def _ready(bilm: BiLM, precision: Precision, budget: int = DEFAULT_BUDGET) -> Embedder:
    """It has packed its weights, and knows no word."""
    embedder = Embedder(bilm, batch_words=budget, precision=precision)
    embedder([["#"]])
    return embedder


def _read(bilm: BiLM, precision: Precision, budget: int, lines: list[list[str]]) -> Reading:
    with gemm.counted(bilm) as counts:
        embedder = _ready(bilm, precision, budget)
        counts.clear()
        start = time.perf_counter()
        layers = embedder(lines)
        seconds = time.perf_counter() - start
    total = sum(float(abs(X).sum(dtype="float64")) for X in layers)
    return {"seconds": seconds, "sum": total, "GFLOP": sum(counts) / 1e9}


def _read_singly(bilm: BiLM, precision: Precision, lines: list[list[str]]) -> Reading:
    """again: Once more, when it has kept the words."""
    embedder = _ready(bilm, precision)
    tries: list[list[float]] = [[], []]
    for taken in tries:
        for line in lines:
            start = time.perf_counter()
            embedder([line])
            taken.append(time.perf_counter() - start)
    return dict(zip(("seconds", "again"), map(statistics.median, tries), strict=True))


def _asking(
    worker: Worker, lines: list[list[str]], size: int, by_length: bool
) -> Callable[[], Reading]:
    return partial(worker.ask, sentences=lines, size=size, by_length=by_length)


def _ask_singly(worker: Worker, lines: list[list[str]]) -> Reading:
    tries = [_asking(worker, [line], 1, False)()["seconds"] for line in lines]
    return {"seconds": statistics.median(tries)}


@contextmanager
def _rivals(
    bilm: BiLM, pythons: dict[str, Path | None], threads: int
) -> Iterator[dict[str, Worker]]:
    """A process each, which has read a sentence."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        workers = {}
        if any(pythons.values()):
            hdf5.write(
                bilm.config, bilm.state_dict(), place / "options.json", place / "weights.hdf5"
            )
        for rival, python in pythons.items():
            if python is not None:
                script = HERE / f"embed_with_{rival.lower()}.py"
                workers[rival] = Worker(python, script, place, threads)
                _asking(workers[rival], [["#"]], 1, False)()
        try:
            yield workers
        finally:
            for worker in workers.values():
                worker.close()


def _speeds(section: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Ratios are ours, as it is by default, to theirs, by the medians."""
    readings = dict(section["readings"])
    limits = [each["GFLOP/s"] for each in readings.pop(LIMIT, [])]
    words = section["settings"]["text"]["words"]
    default = _median(readings, f"float32, {DEFAULT_BUDGET} words")
    rows = []
    for way, taken in readings.items():
        shares = [
            100 * each["GFLOP"] / limit / each["seconds"]
            for each, limit in zip(taken, limits, strict=False)
            if "GFLOP" in each and way.startswith("float32")
        ]
        ratio = f"{_median(readings, way) / default:.2f}" if default else ""
        speeds = [words / each["seconds"] for each in taken]
        rows.append([way, spread(speeds), ratio, spread(shares)])
    if limits:
        rows.append([f"limit, GFLOP/s: {spread(limits)}", "", "", ""])
    header = ["", "words/s", "its time / that of float32 by default", "% of the products' limit"]
    return header, rows


def _latencies(section: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    readings = section["readings"]
    default = _median(readings, "float32")
    rows = []
    for way, taken in readings.items():
        first, again = (
            spread([1000 * each[key] for each in taken if key in each], 1)
            for key in ("seconds", "again")
        )
        ratio = f"{_median(readings, way) / default:.2f}" if default else ""
        rows.append([way, first, again, ratio])
    return ["", "ms", "ms, the words kept", "its time / that of float32"], rows


def _median(readings: dict[str, list[Reading]], way: str) -> float:
    taken = readings.get(way)
    return statistics.median(each["seconds"] for each in taken) if taken else 0.0


if __name__ == "__main__":
    app()
