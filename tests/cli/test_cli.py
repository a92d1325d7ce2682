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


def test_init_config_shares_one_tok2vec(bilm_dir: Path, tmp_path: Path) -> None:
    path = tmp_path / "config.cfg"
    options = ("--model", bilm_dir, "--placement", "shared", "-o", path)
    assert run("init-config", "--pipeline", "tagger,entity_linker", *options).exit_code == 0
    config = load_config(path)
    assert config["nlp"]["pipeline"] == ["elmo", "tok2vec", "tagger", "entity_linker"]
    shared = config["components"]["tok2vec"]["model"]
    assert [p for p in ("input", "output") if shared[p] is not None] == ["input"]
    nlp = spacy.util.load_model_from_config(config)
    assert nlp.get_pipe("elmo").listening_components == ["tok2vec"]
    assert nlp.get_pipe("tok2vec").listening_components == ["tagger", "entity_linker"]


def test_an_entity_linker_gets_elmo_at_its_input_alone(bilm_dir: Path) -> None:
    result = run("init-config", "-p", "ner,entity_linker", "--model", bilm_dir, "-o", "-")
    components = spacy.util.load_config_from_str(result.stdout)["components"]
    places = {
        name: [p for p in ("input", "output") if components[name]["model"]["tok2vec"][p]]
        for name in ("ner", "entity_linker")
    }
    assert places == {"ner": ["input", "output"], "entity_linker": ["input"]}


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


EXPECTED = "expected each trainable component once, such as tagger,parser,ner:"
REFUSED = {
    "elmo,ner": f"has 'elmo', for which the shared `elmo` stands in any case, {EXPECTED} leave it out",
    "ner,tok2vec": f"has 'tok2vec', for which the shared `elmo` stands in any case, {EXPECTED} leave",
    "transformer,ner": f"has 'transformer', for which the shared `elmo` stands in any case, {EXPECTED}",
    "ner,tagger,ner": f"has 'ner' twice, {EXPECTED} name it once",
    "tagger,NER": f"has 'NER', which no factory makes, {EXPECTED} correct the name or install",
    "ner tagger": f"has 'ner tagger', which no factory makes, {EXPECTED} correct the name or install",
    "": "has no component, expected at least one that can listen, such as ner: name it.",
    " , ": "has no component, expected at least one that can listen, such as ner: name it.",
    "textcat": "No component of textcat has a tok2vec in spaCy's efficiency config, expected at least "
    "one that can listen, such as tagger, parser or ner: add it.",
}


def refused(*arguments: object) -> str:
    """What the command prints that refuses: one sentence, no trace of a program's error."""
    result = run("init-config", *arguments)
    assert result.exit_code == 1 and isinstance(result.exception, SystemExit), result.exception
    return words(result)


@pytest.mark.parametrize("pipeline", REFUSED)
def test_init_config_refuses_a_pipeline(bilm_dir: Path, tmp_path: Path, pipeline: str) -> None:
    path = tmp_path / "config.cfg"
    message = refused("-p", pipeline, "--model", bilm_dir, "-o", path)
    assert REFUSED[pipeline] in message
    assert not path.exists()


@pytest.mark.parametrize("lang", ["qq", "", "../en"])
def test_init_config_refuses_an_unknown_language(bilm_dir: Path, lang: str) -> None:
    message = refused("--lang", lang, "--model", bilm_dir, "-o", "-")
    assert f"lang is '{lang}', expected the code of a language that spaCy has" in message
    assert "such as 'en', or 'xx' for any other" in message


def test_init_config_refuses_a_language_whose_tokenizer_is_missing(
    bilm_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_tokenizer(lang: str) -> None:
        raise ImportError("Install it with:\n\n    pip install tokenizer")

    monkeypatch.setattr("spacy_elmo.training_config.blank", no_tokenizer)
    message = refused("--lang", "ja", "--model", bilm_dir, "-o", "-")
    assert "whose tokenizer is installed" in message
    assert "(Install it with: pip install tokenizer)." in message


@pytest.mark.parametrize("place", [".", "file/config.cfg", "file/inside/config.cfg"])
def test_init_config_refuses_a_place_that_takes_no_file(
    bilm_dir: Path, tmp_path: Path, place: str
) -> None:
    (tmp_path / "file").write_text("mine")
    path = tmp_path / place
    message = refused("-p", "ner", "--model", bilm_dir, "-o", path, "--force")
    assert str(path) in message.replace(" ", "") and " cannot be written (" in message
    assert "expected the path of a file: give another one" in message


def test_init_config_refuses_an_unknown_biLM(tmp_path: Path) -> None:
    result = run("init-config", "--model", tmp_path / "nothing", "-o", tmp_path / "config.cfg")
    assert result.exit_code == 1
    assert "No biLM" in words(result)
    assert not (tmp_path / "config.cfg").exists()
