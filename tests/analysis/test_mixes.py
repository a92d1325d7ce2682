"""The mixes of pipelines: found where they stand, with the numbers they have."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from spacy.cli import app
from spacy.language import Language
from typer.testing import CliRunner, Result

import spacy_elmo.cli  # noqa: F401
from spacy_elmo.analysis.mixes import pipeline_mixes, summarise

LISTENER = {"@architectures": "spacy-elmo.ElmoListener.v1"}


def tok2vec(*places: str) -> dict[str, Any]:
    return {
        "@architectures": "spacy-elmo.ElmoTok2Vec.v1",
        **dict.fromkeys(places, LISTENER),
        "embed": {
            "@architectures": "spacy.MultiHashEmbed.v2",
            "width": 8,
            "attrs": ["NORM"],
            "rows": [50],
            "include_static_vectors": False,
        },
        "encode": {
            "@architectures": "spacy.MaxoutWindowEncoder.v2",
            "width": 8,
            "depth": 1,
            "window_size": 1,
            "maxout_pieces": 2,
        },
    }


def pipeline(
    bilm_dir: Path, scalars: Sequence[float], tasks: dict[str, Any] | None = None
) -> Language:
    """A pipeline whose mixes have these scalars, and gamma 2."""
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"model": {"name": str(bilm_dir)}})
    for name, task in (tasks or {"morph": LISTENER, "tag": tok2vec("input", "output")}).items():
        model = {"@architectures": "spacy.Tagger.v2", "tok2vec": task}
        nlp.add_pipe("tagger", name, config={"model": model}).add_label("N")  # type: ignore[attr-defined]
    nlp.initialize()
    for _, pipe in nlp.components[1:]:
        for node in pipe.model.walk():  # type: ignore[attr-defined]
            if node.name == "scalar_mix":
                node.set_param("scalars", np.array(scalars, dtype="f"))
                node.set_param("gamma", np.array([2.0], dtype="f"))
    return nlp


def softmax(scalars: Sequence[float]) -> np.ndarray:
    return np.exp(scalars) / np.exp(scalars).sum()


def test_each_place_apart(bilm_dir: Path) -> None:
    nlp = pipeline(bilm_dir, [1.0, 0.0, -1.0])
    tag: Any = nlp.get_pipe("tag")
    listeners = [n for n in tag.model.walk() if n.name == "elmo_listener"]
    at_input, at_output = sorted(listeners, key=list(tag.model.walk(order="dfs_pre")).index)
    at_output.get_ref("mix").set_param("scalars", np.array([0, 0, 3], dtype="f"))
    found = pipeline_mixes(nlp)
    assert [(m.component, m.placement) for m in found] == [
        ("morph", "alone"),
        ("tag", "input"),
        ("tag", "output"),
    ]
    np.testing.assert_allclose(found[1].weights, softmax([1, 0, -1]), rtol=1e-6)
    np.testing.assert_allclose(found[2].weights, softmax([0, 0, 3]), rtol=1e-6)
    assert found[1].gamma == 2
    assert at_input is not at_output


@pytest.mark.parametrize("place", ["input", "output"])
def test_one_place(bilm_dir: Path, place: str) -> None:
    nlp = pipeline(bilm_dir, [0, 0, 0], {"tag": tok2vec(place)})
    assert [m.placement for m in pipeline_mixes(nlp)] == [place]


def test_mean_and_spread(bilm_dir: Path) -> None:
    scalars = [[1.0, 0.0, -1.0], [0.0, 0.0, 0.0], [0.0, 2.0, 0.0]]
    found = summarise([pipeline_mixes(pipeline(bilm_dir, s)) for s in scalars])
    weights = np.array([softmax(s) for s in scalars])
    np.testing.assert_allclose(found[0].weights, weights.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(found[0].weights_spread, weights.std(axis=0, ddof=1), rtol=1e-5)
    assert (found[0].gamma, found[0].gamma_spread, found[0].pipelines) == (2, 0, 3)


def test_one_pipeline_has_no_spread(bilm_dir: Path) -> None:
    (found, *_) = summarise([pipeline_mixes(pipeline(bilm_dir, [0, 0, 0]))])
    assert np.isnan(found.weights_spread).all() and np.isnan(found.gamma_spread)


def test_pipelines_must_be_alike(bilm_dir: Path) -> None:
    one = pipeline_mixes(pipeline(bilm_dir, [0, 0, 0]))
    with pytest.raises(
        ValueError, match=r"pipeline 2 of morph alone \(3\): expected pipelines that"
    ):
        summarise([one, one[:1]])
    with pytest.raises(ValueError, match="no initialized scalar mix"):
        summarise([[]])


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["elmo", "mix", *map(str, arguments)])


def test_command(bilm_dir: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder, scalars in zip(folders, ([1, 0, 0], [0, 1, 0]), strict=True):
        pipeline(bilm_dir, scalars).to_disk(folder)
    result = run(folders[0])
    assert result.exit_code == 0, result.output
    assert "0.576" in result.output and "+-" not in result.output
    result = run(*folders, "-o", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "+-" in result.output
    mixes = json.loads((tmp_path / "out" / "mix.json").read_text())["mixes"]
    assert [mix["placement"] for mix in mixes] == ["alone", "input", "output"]
    with (tmp_path / "out" / "mix.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 3 * 4
    assert {p.name for p in (tmp_path / "out").iterdir()} >= {"mix.svg", "mix.png"}


def test_command_names_what_is_missing(tmp_path: Path) -> None:
    spacy.blank("en").to_disk(tmp_path)
    result = run(tmp_path)
    assert result.exit_code == 1
    assert "no initialized scalar mix" in " ".join(result.output.split())
