"""What the benchmarks share: the machine in words, text, a full-size biLM, readings in turns, tables."""

import json
import lzma
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from spacy.tokens import Doc
from spacy.vocab import Vocab

from spacy_elmo import BiLM, load_bilm
from spacy_elmo.bilm.config import BiLMConfig

RESULTS = Path(__file__).parent / "results"
DATA = Path(__file__).parents[2] / "shared" / "data"
TEXT = DATA / "ewt" / "en_ewt-ud-train.conllu.xz"
# The first published biLM's sizes.
ORIGINAL = BiLMConfig(
    char_dim=16,
    filters=((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024)),
    n_highway=2,
    projection_dim=512,
    cell_dim=4096,
    n_layers=2,
    cell_clip=3.0,
    projection_clip=3.0,
    skip_connections=True,
)
# For smoke tests.
TINY = BiLMConfig(
    char_dim=16,
    filters=((1, 8), (2, 16)),
    n_highway=1,
    projection_dim=16,
    cell_dim=32,
    n_layers=2,
    cell_clip=3.0,
    projection_clip=3.0,
    skip_connections=True,
)
# As /proc/cpuinfo calls them, and as people do.
MAKERS = {"AuthenticAMD": "AMD", "GenuineIntel": "Intel"}
INSTRUCTIONS = {
    "avx2": "AVX2",
    "avx512f": "AVX-512",
    "avx512_vnni": "VNNI",
    "avx512_bf16": "BF16",
    "amx_tile": "AMX",
}

Reading = dict[str, float]


def machine() -> dict[str, Any]:
    """In words: what a reader needs to compare another machine's figures, and no name or path of it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    fields = dict(line.split("\t", 1) for line in lines if "\t" in line)
    values = {name: value.strip(" \t:") for name, value in fields.items()}
    maker = values.get("vendor_id", platform.machine())
    flags = values.get("flags", "").split()
    pages = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": MAKERS.get(maker, maker),
        "instructions": [name for flag, name in INSTRUCTIONS.items() if flag in flags],
        "cores": os.cpu_count(),
        "memory, GiB": round(pages / 2**30),
        "python": platform.python_version(),
        **{name: version(name) for name in ("torch", "spacy", "thinc")},
    }


def sentences(path: Path, number: int | None = None) -> list[list[str]]:
    """The first sentences of a text: CoNLL-U, or a sentence a line with its tokens separated by spaces;
    plain or .xz.
    """
    with (lzma.open if path.suffix == ".xz" else open)(path, "rt", encoding="utf8") as file:
        read = _conllu(file) if ".conllu" in path.name else (line.split() for line in file)
        return list(islice(filter(None, read), number))


def _conllu(lines: Iterable[str]) -> Iterator[list[str]]:
    words: list[str] = []
    for line in lines:
        at, *rest = line.rstrip("\n").split("\t")
        if at.isdigit():
            words.append(rest[0])
        elif not at:
            yield words
            words = []
    yield words


def describe_text(text: list[list[str]]) -> dict[str, int]:
    words = [word for sentence in text for word in sentence]
    return {"sentences": len(text), "words": len(words), "distinct words": len(set(words))}


def documents(text: list[list[str]], size: int, vocab: Vocab | None = None) -> list[Doc]:
    """Docs of so many sentences each, of the words as they are, without boundaries."""
    vocab = vocab or Vocab()
    groups = (text[start : start + size] for start in range(0, len(text), size))
    return [Doc(vocab, words=[word for each in group for word in each]) for group in groups]


def bilm_of_trained_scale(config: BiLMConfig = ORIGINAL) -> BiLM:
    """Random weights. Each tensor has the mean and deviation that it has in the trained en_elmo_sm, the
    deviation of a matrix divided by the root of how many times more inputs it sums, and times what it
    takes for layers like the trained ones: their deviations are 0.60, 0.51 and 0.77 (trained: 0.60, 0.37
    and 0.63). Without that, layer 0 is small and the LSTMs are chaotic: rounding alone decides what
    comes out.
    """
    trained = load_bilm("en_elmo_sm").state_dict()
    bilm = BiLM(config)
    torch.manual_seed(0)
    with torch.no_grad():
        for name, weight in bilm.named_parameters():
            like = trained[_like(name, trained)]
            deviation = float(like.std())
            if weight.dim() > 1 and "embedding" not in name:
                deviation *= (like[0].numel() / weight[0].numel()) ** 0.5
            weight.normal_(float(like.mean()), deviation * _times(name))
    return bilm.eval().requires_grad_(False)


def _times(name: str) -> float:
    if name.startswith("token_encoder.projection"):
        return 8.5
    return 0.5 if "_lm." in name and "bias" not in name else 1.0


def _like(name: str, trained: dict[str, Any]) -> str:
    """Another convolution or highway layer, where the small biLM has fewer."""
    parts = name.split(".")
    while ".".join(parts) not in trained:
        parts[2] = str(int(parts[2]) - 1)
    return ".".join(parts)


class Section:
    """Readings in a part of a JSON file, written after each, so that a stopped run goes on where it was.

    A part of another machine or of other settings is begun anew.
    """

    def __init__(self, path: Path, name: str, settings: dict[str, Any]) -> None:
        self._path, self._name = path, name
        stored = read_results(path).get(name, {})
        mine = json.loads(json.dumps({"machine": machine(), "settings": settings}))
        same = all(stored.get(key) == value for key, value in mine.items())
        self.values: dict[str, Any] = stored if same else {**mine, "readings": {}}

    @property
    def readings(self) -> dict[str, list[Reading]]:
        found: dict[str, list[Reading]] = self.values["readings"]
        return found

    def take_turns(
        self, ways: Mapping[str, Callable[[], Reading]], repeats: dict[str, int]
    ) -> None:
        """Each way once, then each again: what slows the machine for a while slows all of them."""
        for turn in range(max(repeats.values())):
            for way, measure in ways.items():
                taken = self.readings.setdefault(way, [])
                if len(taken) <= turn < repeats[way]:
                    taken.append(measure())
                    self.write()
                    print(way, json.dumps(taken[-1]), file=sys.stderr, flush=True)

    def write(self) -> None:
        results = {**read_results(self._path), self._name: self.values}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf8")


def read_results(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf8")) if path.exists() else {}
    return found


class Worker:
    """A Python script in a process of its own that answers each line of JSON with one; it has said a
    first line when it is ready.

    first: What it needs to get ready.
    """

    def __init__(
        self, python: Path | str, script: Path, *arguments: object, first: Any = None
    ) -> None:
        self._script = script
        self._process = subprocess.Popen(
            list(map(str, (python, script, *arguments))),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.ready = self._answer() if first is None else self.ask(**first)

    def ask(self, **request: Any) -> Reading:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Reading:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            sys.exit(f"{self._script.name} ended without an answer.")
        answer: Reading = json.loads(line)
        return answer

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def measure_apart(script: str, *arguments: object) -> Reading:
    """The last line that a script's command prints in a process of its own."""
    command = [sys.executable, "-W", "ignore", script, *map(str, arguments)]
    finished = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    answer: Reading = json.loads(finished.stdout.splitlines()[-1])
    return answer


def memory_mib(field: str) -> float:
    """Of this process; VmRSS: now, VmHWM: at most (ru_maxrss counts what it was before `exec`, too)."""
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{field}:")[1].split()[0]) / 1024


def spread(values: list[float], digits: int = 0) -> str:
    """Median (least to most)."""
    if not values:
        return ""
    shown = [statistics.median(values), min(values), max(values)]
    median, least, most = (f"{value:,.{digits}f}" for value in shown)
    return f"{median} ({least} to {most})" if len(values) > 1 else median


def print_table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    """In Markdown."""
    header = list(header)
    for row in (header, ["---", *["---:"] * (len(header) - 1)], *rows):
        print("|", " | ".join(row), "|")
    print()


def print_section(name: str, section: dict[str, Any]) -> None:
    """Its name, settings and machine, in a line each."""
    print(f"### {name}\n")
    for part in ("settings", "machine"):
        print("; ".join(f"{key}: {_words(value)}" for key, value in section[part].items()) + ".\n")


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_words(each)}" for key, each in value.items())
    return " ".join(map(_words, value)) if isinstance(value, list) else str(value)
