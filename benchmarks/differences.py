"""How far the engine is from the plain modules (spacy_elmo/bilm/plain_reader.py), layer by layer.

    python benchmarks/differences.py run                     # the original's size, random weights
    python benchmarks/differences.py run --bilm en_elmo_sm
    python benchmarks/differences.py table

In float32 with the batches, the order of the sentences, the words kept and the threads varied; in
bfloat16 and int8 as by default. max: the largest |difference| of a number; cosine: the lowest of a
word's vector with the plain one.
"""

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import typer
from common import (
    RESULTS,
    TEXT,
    TINY,
    Reading,
    Section,
    bilm_of_trained_scale,
    describe_text,
    print_section,
    print_table,
    read_results,
    sentences,
)
from numpy.typing import NDArray

from spacy_elmo import BiLM, Embedder, load_bilm
from spacy_elmo.bilm.plain_reader import PlainReader

OUTPUT = RESULTS / "differences.json"
PLAIN_BATCH = 64
ALONE = 100
app = typer.Typer(help=__doc__, no_args_is_help=True, rich_markup_mode=None)

Lines = list[list[str]]
Layers = list[NDArray[np.float32]]


@app.command()
def run(
    number: int = typer.Option(2048, "--sentences", help="Sentences from the text's beginning"),
    text: Path = typer.Option(TEXT, help="CoNLL-U, or a tokenized sentence a line"),
    threads: int = typer.Option(2, help="Where it does not say 1"),
    bilm: str = typer.Option("", help="A biLM's name or path; nothing: random, original size"),
    output: Path = typer.Option(OUTPUT, help="Where the differences are, and are added"),
    quick: bool = typer.Option(False, help="A tiny biLM: only to see that it runs"),
) -> None:
    """Read the text in each way and compare."""
    lines = sentences(text, number)
    model = load_bilm(bilm) if bilm else bilm_of_trained_scale(*([TINY] if quick else []))
    name = Path(bilm).name or ("random, tiny" if quick else "random, original size")
    torch.set_num_threads(threads)
    settings = {"text": describe_text(lines), "biLM": name, "threads": threads}
    section = Section(output, name, settings)
    expected = _plain(model, lines)
    ways = {way: partial(_compare, read, model, lines, expected) for way, read in WAYS.items()}
    section.take_turns(ways, dict.fromkeys(ways, 1))
    print_table(*_rows(section.values))


@app.command()
def table(output: Path = typer.Option(OUTPUT, help="Where the differences are")) -> None:
    """Print them in Markdown."""
    for name, section in read_results(output).items():
        print_section(name, section)
        print_table(*_rows(section))


@torch.no_grad()
def _plain(bilm: BiLM, lines: Lines) -> Layers:
    reader = PlainReader(bilm)
    found: dict[int, NDArray[np.float32]] = {}
    order = sorted(range(len(lines)), key=lambda i: len(lines[i]))
    for start in range(0, len(order), PLAIN_BATCH):
        batch = order[start : start + PLAIN_BATCH]
        layers = reader.read([lines[i] for i in batch])
        found.update(zip(batch, (X.numpy() for X in layers), strict=True))
    return [found[i] for i in range(len(lines))]


def _by_default(bilm: BiLM, lines: Lines) -> Layers:
    return Embedder(bilm)(lines)


def _reversed(bilm: BiLM, lines: Lines) -> Layers:
    embedder = Embedder(bilm, batch_words=512)
    embedder(lines[::2])
    return embedder(lines[::-1])[::-1]


def _shuffled(bilm: BiLM, lines: Lines) -> Layers:
    order = random.Random(0).sample(range(len(lines)), len(lines))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        embedder = Embedder(bilm, batch_words=16384, kept_words=100)
        layers = embedder([lines[i] for i in order])
    finally:
        torch.set_num_threads(threads)
    return [layers[order.index(i)] for i in range(len(lines))]


def _alone(bilm: BiLM, lines: Lines) -> Layers:
    embedder = Embedder(bilm)
    return [embedder([line])[0] for line in lines[:ALONE]]


def _bfloat16(bilm: BiLM, lines: Lines) -> Layers:
    return Embedder(bilm, precision="bfloat16")(lines)


def _int8(bilm: BiLM, lines: Lines) -> Layers:
    return Embedder(bilm, precision="int8")(lines)


WAYS = {
    "float32, by default": _by_default,
    "float32, in reverse, batches of 512 words, half of the sentences read before": _reversed,
    "float32, shuffled, batches of 16,384 words, 100 words kept, 1 thread": _shuffled,
    f"float32, the first {ALONE} one by one": _alone,
    "bfloat16": _bfloat16,
    "int8": _int8,
}


def _compare(
    read: Callable[[BiLM, Lines], Layers], bilm: BiLM, lines: Lines, expected: Layers
) -> Reading:
    found, reading = read(bilm, lines), Reading()
    for layer in range(len(expected[0])):
        ours = np.concatenate([X[layer] for X in found]).astype(np.float64)
        theirs = np.concatenate([X[layer] for X in expected[: len(found)]]).astype(np.float64)
        norms = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
        cosines = (ours * theirs).sum(axis=1) / norms
        reading[f"max, layer {layer}"] = float(abs(ours - theirs).max())
        reading[f"cosine, layer {layer}"] = float(cosines.min())
    return reading


def _rows(section: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """The cosines as their distance from 1, where float32's would all be shown as 1."""
    rows, columns = [], []
    for way, (reading,) in section["readings"].items():
        columns = list(reading)
        rows.append(
            [
                way,
                *(
                    f"{reading[column]:.1e}"
                    if column.startswith("max")
                    else f"{1 - reading[column]:.1e}"
                    for column in columns
                ),
            ]
        )
    return ["", *(name.replace("cosine", "1 - cosine") for name in columns)], rows


if __name__ == "__main__":
    app()
