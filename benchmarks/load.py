"""Seconds and memory until a full-size biLM (93.6 million random weights) gives its first vector.

    python benchmarks/load.py run
    python benchmarks/load.py run --allennlp scratch/bin/python   # see load_with_allennlp.py

Each reading is a process of its own, after its imports, one thread, files in the page cache; ways take
turns. peak: what the process holds at most beyond its imports. own: the part that is not pages of a
mapped file, which the system can drop and processes share. later: the same after some hundred words,
when the weights are packed for oneDNN, if that is the faster library here.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import defaultdict
from pathlib import Path

import torch
import typer
from common import ORIGINAL, machine, memory_mib
from wasabi import msg

from spacy_elmo import BiLM, Embedder, load_bilm
from spacy_elmo.bilm.description import count_parameters, describe
from spacy_elmo.bilm.formats import hdf5, many_langs, many_langs_config, native
from spacy_elmo.bilm.formats.many_langs_map import encoder, token_embedder
from spacy_elmo.bilm.lexicon import CHARACTER_MARKS, UNKNOWN, Lexicon
from spacy_elmo.bilm.loading import find

SENTENCE = ["Time", "until", "this", "sentence", "has", "vectors", "."]
# Where each way finds its biLM.
WAYS = {
    "config.json + weights.safetensors": "native",
    "options.json + weights.hdf5": "hdf5",
    "the same in a zip archive": "217.zip",
    "ELMoForManyLangs": "many_langs",
    "h5py into a new module": "hdf5",
    "AllenNLP 2.10.1": "hdf5",
}
# What is measured, and the digits that it is shown with.
DIGITS = {"info": 2, "load": 2, "first": 2, "peak": 0, "own": 0, "later": 0}
app = typer.Typer(help=__doc__, rich_markup_mode=None)


@app.command()
def run(
    repeats: int = typer.Option(5, help="Readings of each way"),
    allennlp: Path | None = typer.Option(None, help="The Python of an environment with AllenNLP"),
    output: Path | None = typer.Option(None, help="Also write all numbers to this JSON file"),
) -> None:
    """Make the files, read each way in turn, print medians (least to most)."""
    ways = [way for way in WAYS if allennlp or not way.startswith("AllenNLP")]
    found: dict[str, list[dict[str, float]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        make(place)
        for _ in range(repeats):
            for way in ways:
                found[way].append(_measure(way, place / WAYS[way], allennlp))
    rows = [
        (way, *(_show([each.get(column) for each in found[way]], column) for column in DIGITS))
        for way in ways
    ]
    header = ("", "info, s", "load, s", "first vector, s", "peak, MB", "own, MB", "later, MB")
    msg.table(rows, header=header, divider=True, aligns=("l", *"r" * len(DIGITS)))
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        shown = {"machine": machine(), "parameters": count_parameters(ORIGINAL), "readings": found}
        text = json.dumps(shown, indent=1)
        output.write_text(text + "\n", encoding="utf8")


@app.command(hidden=True)
def read(way: str, path: Path) -> None:
    """In a process of its own."""
    torch.set_num_threads(1)
    own = memory_mib("RssAnon")
    before, started = memory_mib("VmRSS"), time.perf_counter()
    if way.startswith("h5py"):
        config, tensors = hdf5.read(path / "options.json", path / "weights.hdf5")
        bilm = BiLM(config)
        bilm.load_state_dict(tensors)
    else:
        bilm = load_bilm(path)
    loaded = time.perf_counter()
    embedder = Embedder(bilm)
    (vectors,) = embedder([SENTENCE])
    ended = time.perf_counter()
    numbers = {
        "load": loaded - started,
        "first": ended - started,
        "peak": memory_mib("VmHWM") - before,
        "own": memory_mib("RssAnon") - own,
        "sum": float(abs(vectors).sum()),
    }
    embedder([SENTENCE] * 60)
    numbers["later"] = memory_mib("RssAnon") - own
    print(json.dumps(numbers))


@app.command(hidden=True)
def info(way: str, path: Path) -> None:
    """In a process of its own: what `spacy elmo info` does."""
    started = time.perf_counter()
    source = find(path)
    describe(source, source.inspect())
    print(json.dumps({"info": time.perf_counter() - started}))


def make(place: Path) -> None:
    """The same weights in the layouts that share them, and ELMoForManyLangs of the published sizes."""
    torch.manual_seed(0)
    tensors = BiLM(ORIGINAL).state_dict()
    native.write(ORIGINAL, tensors, place / "native")
    hdf5.write(ORIGINAL, tensors, place / "hdf5" / "options.json", place / "hdf5" / "weights.hdf5")
    with zipfile.ZipFile(place / "217.zip", "w", zipfile.ZIP_DEFLATED) as file:
        for path in (place / "hdf5").iterdir():
            file.write(path, path.name)
    _make_many_langs(place / "many_langs")


def _make_many_langs(place: Path) -> None:
    """As torch 0.4 wrote them, with as many characters and words as a language has there."""
    place.mkdir()
    characters = (*CHARACTER_MARKS, *map(chr, range(0x4E00, 0x4E00 + 6000)))
    words = ("<bos>", "<eos>", "<pad>", UNKNOWN, *(f"w{i}" for i in range(140_000)))
    for name, entries in (
        (many_langs_config.CHARACTERS, characters),
        (many_langs_config.WORDS, words),
    ):
        lines = [f"{entry}\t{i}\n" for i, entry in enumerate(entries)]
        (place / name).write_text("".join(lines), encoding="utf8")
    (place / many_langs_config.CONFIG).write_text(
        json.dumps({"config_path": f"configs/{many_langs_config.PUBLISHED_SIZES}"})
    )
    config = many_langs_config.read_config(place)
    assert config.lexicon == Lexicon(characters, words, 100)
    tensors = BiLM(config).state_dict()
    for name, layout in (
        (many_langs.TOKEN_EMBEDDER, token_embedder),
        (many_langs.ENCODER, encoder),
    ):
        stored = {each.name: each.from_tensors(tensors) for each in layout(config)}
        torch.save(stored, place / name, _use_new_zipfile_serialization=False)


def _measure(way: str, path: Path, allennlp: Path | None) -> dict[str, float]:
    if way.startswith("AllenNLP"):
        script = Path(__file__).with_name("load_with_allennlp.py")
        return _call(str(allennlp), script, path, *SENTENCE)
    numbers = _call(sys.executable, __file__, "read", way, path)
    if not way.startswith("h5py"):
        numbers |= _call(sys.executable, __file__, "info", way, path)
    return numbers


def _call(*command: object) -> dict[str, float]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    finished = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, env=environment
    )
    if finished.returncode:
        msg.fail(" ".join(map(str, command)), finished.stderr[-2000:], exits=1)
    numbers: dict[str, float] = json.loads(finished.stdout.splitlines()[-1])
    return numbers


def _show(values: list[float | None], column: str) -> str:
    """Median (least to most)."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    median, *spread = (
        f"{value:.{DIGITS[column]}f}"
        for value in (statistics.median(known), min(known), max(known))
    )
    return f"{median} ({' to '.join(spread)})"


if __name__ == "__main__":
    app()
