"""Each benchmark runs, small, and writes what its table needs; what it counts is what PyTorch counts."""

import importlib.util
import json
import platform
import random
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from conftest import SMALL, random_bilm
from torch.utils.flop_counter import FlopCounterMode
from typer.testing import CliRunner

from spacy_elmo import Embedder
from spacy_elmo.bilm import products
from spacy_elmo.bilm.precision import PRECISIONS

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
ECHO = """
import json, sys
print("{}", flush=True)
for line in sys.stdin:
    print(json.dumps({"seconds": len(json.loads(line)["sentences"])}), flush=True)
"""


def load(name: str) -> ModuleType:
    """By a name that no other module has."""
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", BENCHMARKS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def beside_the_benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    """They import what they share."""
    monkeypatch.syspath_prepend(BENCHMARKS)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    draw = random.Random(0)
    lengths = [1, 12, *(draw.randint(2, 14) for _ in range(14))]
    lines = [" ".join(f"word{draw.randint(0, 30)}" for _ in range(length)) for length in lengths]
    path = tmp_path / "text.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf8")
    return path


@pytest.fixture
def entities(tmp_path: Path) -> Path:
    sentence = "Ann I-PER\nmet O\nBob I-PER\nin O\nParis I-LOC\n. O\n"
    path = tmp_path / "entities.conll"
    path.write_text("\n".join([sentence] * 8), encoding="utf8")
    return path


def run(module: ModuleType, output: Path, *arguments: object) -> dict[str, Any]:
    """What the command `run` has written, with nothing of this machine's names in it; the table shows
    every way.
    """
    command = ["run", *map(str, arguments), "--output", str(output)]
    found = CliRunner().invoke(module.app, command, catch_exceptions=False)
    assert found.exit_code == 0, found.output
    written = output.read_text(encoding="utf8")
    for private in (str(output.parent), str(Path.home()), platform.node()):
        assert private not in written
    results: dict[str, Any] = json.loads(written)
    table = CliRunner().invoke(module.app, ["table", "--output", str(output)]).output
    for section in results.values():
        assert {"processor", "instructions", "cores", "torch"} <= set(section["machine"])
        assert section["settings"]
        for way in section["readings"]:
            assert way in table or way.startswith("products' limit")
    return results


def keys(section: dict[str, Any]) -> dict[str, set[str]]:
    """Of the readings of each way, which all have the same."""
    found = {}
    for way, readings in section["readings"].items():
        (found[way],) = {frozenset(reading) for reading in readings}
    return {way: set(names) for way, names in found.items()}


def test_embed(text: Path, tmp_path: Path) -> None:
    options = ["--sentences", 16, "--text", text, "--threads", 1, "--repeats", 2, "--quick"]
    module = load("embed")
    results = run(module, tmp_path / "embed.json", *options)
    assert run(module, tmp_path / "embed.json", *options) == results  # nothing is measured again
    (section,) = results.values()
    found = keys(section)
    assert "GFLOP/s" in found.pop("products' limit")
    assert len(found) == 5
    assert all(names == {"seconds", "sum", "GFLOP"} for names in found.values())
    assert all(len(readings) == 2 for readings in section["readings"].values())
    assert section["settings"]["text"]["sentences"] == 16
    # Batches do not change what is computed.
    sums = {
        readings[0]["sum"]
        for way, readings in section["readings"].items()
        if way.startswith("float32")
    }
    assert max(sums) == pytest.approx(min(sums), rel=1e-6)


def test_latency(text: Path, tmp_path: Path) -> None:
    output = tmp_path / "embed.json"
    options = ["--text", text, "--threads", 1, "--repeats", 1, "--quick", "--output", output]
    module = load("embed")
    found = CliRunner().invoke(module.app, ["latency", *map(str, options)], catch_exceptions=False)
    assert found.exit_code == 0
    section = json.loads(output.read_text())["one sentence"]
    assert keys(section) == {precision: {"seconds", "again"} for precision in PRECISIONS}


def test_differences(text: Path, tmp_path: Path) -> None:
    options = ["--text", text, "--threads", 1, "--quick"]
    (section,) = run(load("differences"), tmp_path / "differences.json", *options).values()
    readings = {way: reading for way, (reading,) in section["readings"].items()}
    assert {way.split(",")[0] for way in readings} == set(PRECISIONS)
    for way, reading in readings.items():
        assert set(reading) == {
            f"{what}, layer {n}" for what in ("max", "cosine") for n in range(3)
        }
        assert reading["max, layer 2"] < (1e-4 if "float32" in way else 1)
        assert reading["cosine, layer 2"] > (1 - 1e-9 if "float32" in way else 0.9)


def test_pipelines(text: Path, tmp_path: Path) -> None:
    options = ["--text", text, "--full-sentences", 8, "--threads", 1, "--repeats", 1, "--quick"]
    (section,) = run(load("pipelines"), tmp_path / "pipelines.json", *options).values()
    found = keys(section)
    assert "tagger, parser, ner" in found and "tagger, parser, ner, en_elmo_sm" in found
    assert all(names == {"seconds", "words", "words/s"} for names in found.values())


@pytest.mark.parametrize("size", ["small", "full"])
def test_train_epoch(entities: Path, tmp_path: Path, size: str) -> None:
    options = ["--size", size, "--train", entities, "--epochs", 2, "--threads", 1, "--quick"]
    (section,) = run(load("train_epoch"), tmp_path / "train_epoch.json", *options).values()
    found = keys(section)
    assert ("spaCy's tok2vec" in found) == (size == "small")
    assert {"static table", "no cache", "memory cache", "disk cache"} < set(found)
    assert all(names == {"seconds", "loss"} for names in found.values())


def test_pretrain(text: Path, tmp_path: Path) -> None:
    options = ["--train", text, "--dev", text, "--steps", 1, "--repeats", 1, "--quick"]
    (section,) = run(load("pretrain"), tmp_path / "pretrain.json", *options).values()
    found = keys(section)
    for threads in ("1 thread", "2 threads"):
        assert "GFLOP/s" in found[f"products' limit, {threads}"]
        assert found[f"plain PyTorch, {threads}"] == {"seconds", "words/s"}
        for precision in ("float32", "bfloat16"):
            assert found[f"{precision}, {threads}"] == {"seconds", "words/s", "GFLOP"}


def test_memory(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first input in a process of its own, the others in this one, whose imports are done."""
    module = load("memory")
    apart = module.measure_apart

    def measure(script: str, *arguments: object) -> dict[str, float]:
        if "first_vector" in arguments:
            return apart(script, *arguments)
        command = list(map(str, arguments))
        return json.loads(CliRunner().invoke(module.app, command, catch_exceptions=False).output)

    monkeypatch.setattr(module, "measure_apart", measure)
    amounts = ("--sentences", "--document-words", "--stream-words", "--process-words")
    sizes = [option for name in amounts for option in (name, 20)]
    options = ["--size", "full", "--text", text, "--threads", 1, "--quick", *sizes]
    (section,) = run(module, tmp_path / "memory.json", *options).values()
    found = keys(section)
    assert len(found) == 7
    common = {"load, s", "first vector, s", "ready", "peak"}
    assert found.pop("first vector after spacy.load") == common
    assert all(names >= common | {"words", "words/s"} for names in found.values())
    assert "after half" in found["20 words, nlp.pipe, a stream"]
    assert "of it results" in found["one Doc of 20 words"]


def test_precision(entities: Path, tmp_path: Path) -> None:
    files = [option for split in ("train", "dev", "test") for option in (f"--{split}", entities)]
    options = [*files, "--threads", 1, "--quick"]
    (section,) = run(load("precision"), tmp_path / "precision.json", *options).values()
    scores = {"F1", "precision", "recall", "entities"}
    assert keys(section) == dict.fromkeys(PRECISIONS, scores)


def test_operations_are_those_that_pytorch_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its public functions, which it can count."""
    monkeypatch.setattr(products, "has_onednn", lambda: False)
    gemm, bilm = load("gemm"), random_bilm(SMALL)
    lines = [["one", "two", "three"], ["two"], ["four", "one", "one", "five"]]
    with gemm.counted(bilm) as counts, FlopCounterMode(display=False) as theirs:
        Embedder(bilm)(lines)
    assert sum(counts) == theirs.get_total_flops() > 0
    seen = len(counts)
    Embedder(bilm)(lines)
    assert len(counts) == seen


def test_the_limit_is_a_rate_that_was_reached() -> None:
    found = load("gemm").peak(SMALL, rows=(8,), seconds=0.002)
    assert found.pop("GFLOP/s") == max(found.values()) > 0


def test_a_worker_answers_and_ends(tmp_path: Path) -> None:
    script = tmp_path / "echo.py"
    script.write_text(ECHO)
    worker = load("common").Worker(sys.executable, script)
    assert worker.ask(sentences=[["a"], ["b"]]) == {"seconds": 2}
    worker.close()
    assert worker._process.returncode == 0


def test_a_run_goes_on_where_it_was_and_not_on_another_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    common = load("common")
    path, calls = tmp_path / "results.json", []

    def measure() -> dict[str, float]:
        calls.append(len(calls))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return {"seconds": 1.0}

    ways = {"a": measure, "b": measure}
    with pytest.raises(KeyboardInterrupt):
        common.Section(path, "part", {"n": 1}).take_turns(ways, {"a": 2, "b": 1})
    section = common.Section(path, "part", {"n": 1})
    assert {way: len(taken) for way, taken in section.readings.items() if taken} == {"a": 1}
    section.take_turns(ways, {"a": 2, "b": 1})
    assert {way: len(taken) for way, taken in section.readings.items()} == {"a": 2, "b": 1}
    assert len(calls) == 4
    assert common.Section(path, "part", {"n": 2}).readings == {}
    monkeypatch.setattr(common, "machine", lambda: {"processor": "another"})
    assert common.Section(path, "part", {"n": 1}).readings == {}


@pytest.mark.parametrize("number", [1, 3])
def test_sentences_of_both_layouts(tmp_path: Path, number: int) -> None:
    conllu = "# a comment\n1-2\tdon't\t_\n1\tdo\t_\n2\tn't\t_\n2.1\tx\t_\n\n1\tgo\t_\n\n1\tnow\t_\n"
    (tmp_path / "a.conllu").write_text(conllu)
    (tmp_path / "a.txt").write_text("do n't\n\ngo\nnow\n")
    expected = [["do", "n't"], ["go"], ["now"]][:number]
    common = load("common")
    for name in ("a.conllu", "a.txt"):
        assert common.sentences(tmp_path / name, number) == expected
