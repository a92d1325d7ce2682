"""Peak memory of large inputs, the first vector after spacy.load, and two processes.

    python benchmarks/memory.py run --size small    # en_elmo_sm
    python benchmarks/memory.py run --size full     # the original's size, random weights, shorter inputs
    python benchmarks/memory.py table

Each is a process of its own, which loads a saved pipeline whose only component is `elmo`, with its
defaults. Ready: what it holds when it has read a sentence. Peak: what it holds at most. Both in MiB,
imports included (torch and spaCy alone take several hundred).
"""

import itertools
import json
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal

import spacy
import torch
import typer
from common import (
    DATA,
    ORIGINAL,
    RESULTS,
    TINY,
    Reading,
    Section,
    bilm_of_trained_scale,
    measure_apart,
    memory_mib,
    print_section,
    print_table,
    read_results,
    sentences,
    spread,
)
from spacy.language import Language
from spacy.tokens import Doc

from spacy_elmo.layers.bilm_model import get_shim

OUTPUT = RESULTS / "memory.json"
CORPUS = DATA / "pretrain-en" / "train-000.txt.xz"
DIGITS = {
    "words": 0,
    "words/s": 0,
    "load, s": 2,
    "first vector, s": 2,
    "ready": 0,
    "after a tenth": 0,
    "after half": 0,
    "peak": 0,
    "of it results": 0,
}
app = typer.Typer(help=__doc__, no_args_is_help=True, rich_markup_mode=None)


@app.command()
def run(
    size: Literal["small", "full"] = typer.Option("small", help="Of the biLM"),
    text: Path = typer.Option(CORPUS, help="CoNLL-U, or a tokenized sentence a line"),
    number: int = typer.Option(10_000, "--sentences", help="In one call"),
    document_words: int = typer.Option(100_000, help="Of one document"),
    stream_words: int = typer.Option(1_000_000, help="Of a stream; the text is repeated"),
    process_words: int = typer.Option(100_000, help="Read in one process and in two"),
    threads: int = typer.Option(2, help="PyTorch's"),
    repeats: int = typer.Option(1, help="Readings of each"),
    output: Path = typer.Option(OUTPUT, help="Where readings are, and are added"),
    quick: bool = typer.Option(False, help="A tiny biLM for the full-size one"),
) -> None:
    """Measure each input."""
    section = Section(output, size, {"threads": threads})
    with tempfile.TemporaryDirectory() as name:
        _save_pipeline(size, Path(name), quick)
        inputs = {
            "first vector after spacy.load": ("first_vector", 1),
            f"{number:,} sentences in one call of Embedder": ("one_call", number),
            f"{number:,} sentences, nlp.pipe, one Doc each": ("pipe_sentences", number),
            f"one Doc of {document_words:,} words": ("one_document", document_words),
            f"{stream_words:,} words, nlp.pipe, a stream": ("stream", stream_words),
            f"{process_words:,} words, nlp.pipe(n_process=1)": ("one_process", process_words),
            f"{process_words:,} words, nlp.pipe(n_process=2)": ("two_processes", process_words),
        }
        ways = {
            way: partial(measure_apart, __file__, "measure", name, text, kind, amount, threads)
            for way, (kind, amount) in inputs.items()
        }
        section.take_turns(ways, dict.fromkeys(ways, repeats))
    print_table(*_rows(section.values))


@app.command()
def table(output: Path = typer.Option(OUTPUT, help="Where readings are")) -> None:
    """Print the readings in Markdown."""
    for name, section in read_results(output).items():
        print_section(name, section)
        print_table(*_rows(section))


@app.command(hidden=True)
def measure(pipeline: Path, text: Path, kind: str, amount: int, threads: int) -> None:
    """In a process of its own."""
    torch.set_num_threads(threads)
    lines = sentences(text)
    start = time.perf_counter()
    nlp = spacy.load(pipeline)
    loaded = time.perf_counter()
    nlp(Doc(nlp.vocab, words=["One", "sentence", "."]))
    first = time.perf_counter()
    reading = {"load, s": loaded - start, "first vector, s": first - start}
    reading["ready"] = memory_mib("VmRSS")
    start = time.perf_counter()
    words, more = INPUTS[kind](nlp, lines, amount)
    seconds = time.perf_counter() - start
    if words:
        reading |= {"words": words, "words/s": words / seconds}
    print(json.dumps({**reading, **more, "peak": memory_mib("VmHWM")}))


def _save_pipeline(size: str, place: Path, quick: bool) -> None:
    nlp = spacy.blank("en")
    elmo = nlp.add_pipe("elmo")
    if size == "full":
        bilm = bilm_of_trained_scale(TINY if quick else ORIGINAL)
        get_shim(elmo.model).set_weights(bilm.config, bilm.state_dict())  # type: ignore[attr-defined]
    nlp.to_disk(place)


def _words(lines: list[list[str]], number: int) -> list[str]:
    endless = itertools.chain.from_iterable(itertools.cycle(lines))
    return list(itertools.islice(endless, number))


def _stream(nlp: Language, lines: list[list[str]], words: int) -> Iterator[Doc]:
    """A Doc a sentence."""
    made = 0
    for line in itertools.cycle(lines):
        yield Doc(nlp.vocab, words=line)
        made += len(line)
        if made >= words:
            return


def _first_vector(nlp: Language, lines: list[list[str]], number: int) -> tuple[int, Reading]:
    return 0, {}


def _one_call(nlp: Language, lines: list[list[str]], number: int) -> tuple[int, Reading]:
    read = list(itertools.islice(itertools.cycle(lines), number))
    shim = get_shim(nlp.get_pipe("elmo").model)  # type: ignore[attr-defined]
    layers = shim.embedder(4096, "float32")(read)
    return sum(map(len, read)), {"of it results": sum(X.nbytes for X in layers) / 2**20}


def _pipe_sentences(nlp: Language, lines: list[list[str]], number: int) -> tuple[int, Reading]:
    docs = (Doc(nlp.vocab, words=line) for line in itertools.cycle(lines))
    return sum(len(doc) for doc in nlp.pipe(itertools.islice(docs, number))), {}


def _one_document(nlp: Language, lines: list[list[str]], words: int) -> tuple[int, Reading]:
    doc = nlp(Doc(nlp.vocab, words=_words(lines, words)))
    results = doc._.elmo.layers.nbytes + doc.tensor.nbytes
    return len(doc), {"of it results": results / 2**20}


def _read_stream(nlp: Language, lines: list[list[str]], words: int) -> tuple[int, Reading]:
    read, held = 0, {}
    marks = {"after a tenth": words / 10, "after half": words / 2}
    for doc in nlp.pipe(_stream(nlp, lines, words)):
        read += len(doc)
        for mark, at in marks.items():
            if read >= at and mark not in held:
                held[mark] = memory_mib("VmHWM")
    return read, held


def _processes(
    number: int, nlp: Language, lines: list[list[str]], words: int
) -> tuple[int, Reading]:
    docs = _stream(nlp, lines, words)
    return sum(len(doc) for doc in nlp.pipe(docs, n_process=number, batch_size=100)), {}


INPUTS: dict[str, Any] = {
    "first_vector": _first_vector,
    "one_call": _one_call,
    "pipe_sentences": _pipe_sentences,
    "one_document": _one_document,
    "stream": _read_stream,
    "one_process": partial(_processes, 1),
    "two_processes": partial(_processes, 2),
}


def _rows(section: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Memory at the marks of a stream is the peak until then."""
    rows = [
        [
            way,
            *(
                spread([each[column] for each in taken if column in each], digits)
                for column, digits in DIGITS.items()
            ),
        ]
        for way, taken in section["readings"].items()
    ]
    return ["", *DIGITS], rows


if __name__ == "__main__":
    app()
