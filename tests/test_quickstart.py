"""The quickstart project: what it runs, in which order, on which corpus, and what it prints."""

import re
import runpy
import shlex
import shutil
import sys
from collections import Counter
from pathlib import Path

import pytest
import spacy
import srsly
from spacy.cli import app
from spacy.tokens import Doc
from spacy.training import biluo_tags_to_spans, iob_to_biluo
from typer.testing import CliRunner
from weasel.util import load_project_config

import spacy_elmo.cli  # noqa: F401  (spaCy finds it by its entry point when run as a program)

PROJECT = Path(__file__).parents[1] / "projects" / "quickstart"
LABELS = ["PERSON", "ORGANIZATION", "PLACE", "PRODUCT", "EVENT"]

Sentence = tuple[tuple[str, ...], tuple[str, ...]]


def read(name: str) -> list[Sentence]:
    """Tokens and tags of each sentence."""
    blocks = (PROJECT / "assets" / f"{name}.conll").read_text(encoding="utf8").strip().split("\n\n")
    rows = [[line.split("\t") for line in block.split("\n")] for block in blocks]
    assert all(len(row) == 2 and all(row) for block in rows for row in block)
    return [tuple(zip(*block, strict=True)) for block in rows]  # type: ignore[misc]


def entities(sentences: list[Sentence]) -> Counter[str]:
    """Number of each label, as spaCy reads the tags; it refuses tags that are not BIO."""
    vocab = spacy.blank("en").vocab
    found: Counter[str] = Counter()
    for words, tags in sentences:
        spans = biluo_tags_to_spans(Doc(vocab, words=list(words)), iob_to_biluo(tags))
        found.update(span.label_ for span in spans)
    return found


def table(number: int) -> dict[str, int]:
    """A column of numbers of the corpus' README, by row."""
    text = (PROJECT / "assets" / "README.md").read_text(encoding="utf8")
    rows = re.findall(r"^\| ([\w ]+) \| (\d+) \| (\d+) \|$", text, re.MULTILINE)
    return {row[0]: int(row[number]) for row in rows}


@pytest.mark.parametrize(("name", "column"), [("train", 1), ("dev", 2)])
def test_the_corpus_is_what_its_readme_says(name: str, column: int) -> None:
    sentences = read(name)
    found = entities(sentences)
    assert table(column) == {
        "sentences": len(sentences),
        "of these without an entity": sum(set(tags) == {"O"} for _, tags in sentences),
        "tokens": sum(len(words) for words, _ in sentences),
        "entities": sum(found.values()),
        **{label: found[label] for label in LABELS},
    }
    assert found.keys() == set(LABELS)


def test_the_corpus_is_as_large_as_asked_and_written_for_the_project() -> None:
    assert len(read("train")) >= 300 and len(read("dev")) >= 100
    text = (PROJECT / "assets" / "README.md").read_text(encoding="utf8")
    assert re.search(r"written\s+for this project", text) and "Licence: MIT" in text


def test_no_sentence_is_evaluated_that_was_trained_on() -> None:
    train, dev = ([words for words, _ in read(name)] for name in ("train", "dev"))
    assert len(set(train)) == len(train) and len(set(dev)) == len(dev)
    assert not set(train) & set(dev)


@pytest.mark.parametrize("name", ["train", "dev"])
def test_entities_start_with_b(name: str) -> None:
    """spaCy would repair an I without its B, and the counts would not show it."""
    for words, tags in read(name):
        for before, tag in zip(("O", *tags), tags, strict=False):
            assert tag == "O" or re.fullmatch(rf"[BI]-({'|'.join(LABELS)})", tag), words
            assert not tag.startswith("I-") or before[2:] == tag[2:], words


def test_its_workflow_trains_with_and_without_elmo_and_compares() -> None:
    config = load_project_config(PROJECT)
    assert config["workflows"] == {"all": ["convert", "configs", "train", "evaluate", "compare"]}
    lines = {command["name"]: command["script"] for command in config["commands"]}
    trained = [shlex.split(line)[4] for line in lines["train"]]
    assert trained == ["configs/baseline.cfg", "configs/elmo.cfg"]
    # Alike but for the config and the place.
    first, second = (line.replace("baseline", "elmo") for line in lines["train"])
    assert first == second
    assert config["vars"]["bilm"] == "en_elmo_sm"


def test_it_runs_to_the_end(
    bilm_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """Every line of its commands, in one process, for three steps and with a small biLM."""
    project = tmp_path / "quickstart"
    for part in ("assets", "scripts"):
        shutil.copytree(PROJECT / part, project / part)
    shutil.copy(PROJECT / "project.yml", project)
    variables = {"vars.bilm": str(bilm_dir), "vars.steps": 3}
    config = load_project_config(project, overrides=variables)
    commands = {command["name"]: command for command in config["commands"]}
    monkeypatch.chdir(project)
    for name in config["workflows"]["all"]:
        for needed in commands[name].get("deps", []):
            assert Path(needed).exists(), f"{name} needs {needed}"
        for line in commands[name]["script"]:
            run(line, monkeypatch)
        for made in commands[name].get("outputs", []):
            assert Path(made).exists(), f"{name} makes no {made}"

    printed = capsys.readouterr().out
    scores = [srsly.read_json(f"metrics/{name}.json")["ents_f"] for name in ("baseline", "elmo")]
    shown = re.search(r"^all +([\d.]+) +([\d.]+) +([+-][\d.]+)$", printed, re.MULTILINE)
    assert shown is not None, printed
    assert shown[1] == f"{100 * scores[0]:.1f}" and shown[2] == f"{100 * scores[1]:.1f}"
    for label in LABELS:
        assert re.search(rf"^{label} +[\d.]+ +[\d.]+ +[+-][\d.]+$", printed, re.MULTILINE)
    for place in ("input", "output"):
        line = re.search(rf"^ner {place}((?: +[\d.]+)+)$", printed, re.MULTILINE)
        assert line is not None, printed
        *weights, _gamma = map(float, line[1].split())
        assert len(weights) == 3 and sum(weights) == pytest.approx(1, abs=0.002)
    assert spacy.load("training/elmo/model-best").pipe_names == ["elmo", "ner"]
    assert spacy.load("training/baseline/model-best").pipe_names == ["tok2vec", "ner"]


def run(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`python -m spacy ...` or `python script ...`; the script's output goes to stdout."""
    python, *arguments = shlex.split(line)
    assert python == "python"
    if arguments[:2] == ["-m", "spacy"]:
        result = CliRunner().invoke(app, arguments[2:])
        assert result.exit_code == 0, f"{line}\n{result.output}"
        return
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit) as done:
        runpy.run_path(arguments[0], run_name="__main__")
    assert not done.value.code
