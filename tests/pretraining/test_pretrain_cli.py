"""The commands, run as users run them: through spaCy's own application."""

import json
from pathlib import Path

import pytest
from confection import Config
from spacy.cli import app
from typer.testing import CliRunner, Result

import spacy_elmo.cli  # noqa: F401  (spaCy finds it by its entry point when run as a program)
from spacy_elmo import Embedder, load_bilm


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["elmo", *map(str, arguments)])


def words(result: Result) -> str:
    """What was printed, without the line breaks of the terminal's width."""
    return " ".join(result.output.split())


@pytest.fixture
def config_path(config: Config, tmp_path: Path) -> Path:
    """Without its text, which the command line names."""
    config["paths"] = {"raw_text": None, "dev_text": None}
    config["pretraining"]["logger"]["log_file"] = str(tmp_path / "log.jsonl")
    config.to_disk(tmp_path / "config.cfg")
    return tmp_path / "config.cfg"


def pretrain(config_path: Path, output: Path, text_files: Path, *more: object) -> Result:
    paths = ("--paths.raw_text", text_files / "train-*.txt", "--paths.dev_text")
    return run("pretrain", config_path, "-o", output, *paths, text_files / "dev.txt", *more)


def test_pretrain_then_load_then_evaluate(
    config_path: Path, text_files: Path, tmp_path: Path
) -> None:
    output = tmp_path / "bilm"
    result = pretrain(config_path, output, text_files, "--pretraining.max_steps", 6)
    assert result.exit_code == 0, result.output
    assert "the output layer knows 60 words" in words(result)
    assert "Held-out perplexity" in words(result)
    (layers,) = Embedder(load_bilm(output))([["badas", "new"]])
    assert layers.shape == (3, 2, 24)
    log = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [entry["step"] for entry in log] == [5, 6]
    assert Config().from_disk(output / "config.cfg")["pretraining"]["max_steps"] == 6

    # Where it stands already at its last step, nothing is trained; a longer run goes on.
    assert "at step" in words(
        pretrain(config_path, output, text_files, "--pretraining.max_steps", 6)
    )
    result = pretrain(config_path, output, text_files, "--pretraining.max_steps", 7)
    assert "Going on after step 6" in words(result)

    numbers = tmp_path / "numbers.json"
    result = run("evaluate", output / "last", text_files / "dev.txt", "-o", numbers)
    assert result.exit_code == 0, result.output
    assert "Full softmax over 60 words" in words(result)
    found = json.loads(numbers.read_text())
    history = json.loads((output / "last" / "meta.json").read_text())["history"]
    assert found["mean"] == pytest.approx(history[-1]["mean"], rel=1e-5)
    assert found["oov_rate"] == found["unknown"] / found["tokens"]

    result = run("evaluate", output, text_files / "dev.txt", "--reset", "sentence")
    assert "each sentence starts from the zero state" in words(result)
    result = run("evaluate", output, text_files / "dev.txt", "--lang", "en")
    assert result.exit_code == 0, result.output


def test_what_pretrain_refuses(config_path: Path, text_files: Path, tmp_path: Path) -> None:
    result = run("pretrain", config_path, "-o", tmp_path / "x")
    assert result.exit_code == 1
    assert "corpora.train.paths is not set" in words(result)
    result = pretrain(config_path, tmp_path / "x", text_files, "--system.device", "cuda:77")
    assert result.exit_code == 1
    assert "system.device is 'cuda:77'" in words(result)
    result = run("pretrain", tmp_path / "nothing.cfg", "-o", tmp_path / "x")
    assert result.exit_code == 1
    assert "No config at" in words(result)
    (tmp_path / "bad.txt").write_bytes(b"\xff\n")
    bad = ("--paths.raw_text", tmp_path / "bad.txt", "--paths.dev_text", tmp_path / "bad.txt")
    result = run("pretrain", config_path, "-o", tmp_path / "x", *bad)
    assert result.exit_code == 1
    assert "line 1 is not UTF-8" in words(result)


def test_what_evaluate_refuses(hdf5_dir: Path, text_files: Path, tmp_path: Path) -> None:
    result = run("evaluate", hdf5_dir, text_files / "dev.txt")
    assert result.exit_code == 1
    assert "published weights come without their output layer" in words(result)
    result = run("evaluate", tmp_path / "no", text_files / "dev.txt")
    assert result.exit_code == 1
    result = run("evaluate", hdf5_dir, text_files / "dev.txt", "--reset", "word")
    assert "expected one of document, sentence" in words(result)


@pytest.mark.parametrize("command", ["pretrain", "evaluate"])
def test_help_teaches(command: str) -> None:
    result = run(command, "--help")
    assert result.exit_code == 0
    assert len(result.output.splitlines()) > 15
