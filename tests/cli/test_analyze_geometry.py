"""`analyze geometry`, as users run it."""

import csv
import json
from pathlib import Path

import pytest
from spacy.cli import app
from typer.testing import CliRunner, Result

import spacy_elmo.cli  # noqa: F401
from spacy_elmo import extras


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["elmo", "analyze", *map(str, arguments)])


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    animals = ["cat", "dog", "bird", "cow", "hen", "fox", "pig"]
    path.write_text("\n".join(f"The {a} saw the {b} ." for a in animals for b in animals))
    return path


def test_table_files_and_pictures(bilm_dir: Path, text: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / "out"
    result = run("geometry", bilm_dir, text, "-o", out, "--name", "tiny", "--sentences", 20)
    assert result.exit_code == 0, result.output
    assert "Most contextual words (contexts)" in result.output
    summary = json.loads((out / "geometry.json").read_text())
    assert summary["model"] == "tiny" and summary["tokens"] == 49 * 6
    assert [row["layer"] for row in summary["layers"]] == [0, 1, 2]
    assert summary["layers"][0]["self_similarity"] == pytest.approx(1)
    assert summary["layers"][0]["published_variance"] is None
    with (out / "geometry-words.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["word"] for row in rows} >= {"cat", "saw", "The"}
    assert float(rows[0]["self_similarity_0"]) == pytest.approx(1)
    pictures = {path.name for path in out.glob("*.*g")}
    names = (
        "anisotropy",
        "self-similarity",
        "intra-sentence",
        "explained-variance",
        "published-variance",
    )
    assert pictures == {f"geometry-{n}.{kind}" for n in names for kind in ("svg", "png")}
    other = tmp_path / "other"
    compared = run(
        "geometry",
        bilm_dir,
        text,
        "-o",
        other,
        "--name",
        "second",
        "--compare",
        out / "geometry.json",
    )
    assert compared.exit_code == 0, compared.output
    drawn = (other / "geometry-anisotropy.svg").read_text()
    assert "tiny" in drawn and "second" in drawn


@pytest.mark.parametrize(
    ("pipeline", "options", "message"),
    [
        (None, ["--min-contexts", 1], "2 <= min_contexts"),
        (None, ["--min-contexts", 50], "longer text"),
        ("nowhere", [], "neither a spaCy pipeline"),
    ],
)
def test_failures_are_one_sentence(
    bilm_dir: Path, text: Path, pipeline: str | None, options: list[object], message: str
) -> None:
    result = run("geometry", pipeline or bilm_dir, text, *options)
    assert result.exit_code == 1
    assert message in " ".join(result.output.split())


def test_a_missing_extra_is_named(
    bilm_dir: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(module: str) -> None:
        raise ImportError(f"No module named '{module}'")

    monkeypatch.setattr(extras, "import_module", fail)
    result = run("geometry", bilm_dir, text, "-o", tmp_path)
    assert result.exit_code == 1
    assert 'pip install "spacy-elmo[analysis]"' in " ".join(result.output.split())


def test_help_teaches() -> None:
    result = run("geometry", "--help")
    assert result.exit_code == 0
    assert "Ethayarajh 2019" in result.output
