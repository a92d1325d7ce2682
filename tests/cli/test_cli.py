"""The commands, run as users run them: through spaCy's own application."""

import json
from pathlib import Path

import pytest
import spacy
from spacy.cli import app
from spacy.util import load_config
from typer.testing import CliRunner, Result

import spacy_elmo.cli  # noqa: F401  (spaCy finds it by its entry point when run as a program)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["elmo", *map(str, arguments)])


def words(result: Result) -> str:
    """What was printed, without the line breaks of the terminal's width."""
    return " ".join(result.stdout.split())


@pytest.mark.parametrize("command", ["info", "init-config"])
def test_help_teaches(command: str) -> None:
    result = run(command, "--help")
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) > 8


def test_info_tells_sizes(hdf5_dir: Path) -> None:
    printed = words(run("info", hdf5_dir))
    assert "options.json + weights.hdf5" in printed
    assert "3 (the tokens and 2 LSTM layers), 16 wide" in printed
    assert "48 UTF-8 bytes" in printed


def test_info_refuses_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    result = run("info", tmp_path)
    assert result.exit_code == 1
    assert "describes a model of type 'bert', not a biLM" in words(result)


@pytest.mark.parametrize(
    ("placement", "filled"),
    [("input", ["input"]), ("output", ["output"]), ("both", ["input", "output"])],
)
def test_init_config_places_listeners(
    bilm_dir: Path, tmp_path: Path, placement: str, filled: list[str]
) -> None:
    path = tmp_path / "config.cfg"
    options = ("--model", bilm_dir, "--placement", placement, "-o", path)
    result = run("init-config", "--pipeline", "tagger,parser,ner", *options)
    assert result.exit_code == 0, result.stdout
    config = load_config(path)
    assert config["nlp"]["pipeline"] == ["elmo", "tagger", "parser", "ner"]
    for name in ("tagger", "parser", "ner"):
        tok2vec = config["components"][name]["model"]["tok2vec"]
        assert [p for p in ("input", "output") if tok2vec[p] is not None] == filled
    nlp = spacy.util.load_model_from_config(config)
    assert set(nlp.get_pipe("elmo").listening_components) == {"tagger", "parser", "ner"}


def test_init_config_to_stdout_is_a_config(bilm_dir: Path) -> None:
    result = run("init-config", "--pipeline", "ner", "--model", bilm_dir, "-o", "-")
    assert spacy.util.load_config_from_str(result.stdout)["nlp"]["pipeline"] == ["elmo", "ner"]


def test_init_config_keeps_what_stands_there(bilm_dir: Path, tmp_path: Path) -> None:
    path = tmp_path / "config.cfg"
    path.write_text("mine")
    arguments = ("init-config", "--pipeline", "ner", "--model", bilm_dir, "-o", path)
    result = run(*arguments)
    assert result.exit_code == 1
    assert "--force" in words(result)
    assert path.read_text() == "mine"
    assert run(*arguments, "--force").exit_code == 0


def test_init_config_says_who_gets_no_elmo(bilm_dir: Path, tmp_path: Path) -> None:
    options = ("--model", bilm_dir, "-o", tmp_path / "config.cfg")
    assert "'textcat' has no tok2vec" in words(run("init-config", "-p", "ner,textcat", *options))
    result = run("init-config", "-p", "textcat", *options, "--force")
    assert result.exit_code == 1
    assert "No component of textcat has a tok2vec" in words(result)


def test_init_config_refuses_an_unknown_biLM(tmp_path: Path) -> None:
    result = run("init-config", "--model", tmp_path / "nothing", "-o", tmp_path / "config.cfg")
    assert result.exit_code == 1
    assert "No biLM" in words(result)
    assert not (tmp_path / "config.cfg").exists()
