"""What README tells a new user: its commands exist, its Python runs, and what it warns of is so."""

import configparser
import re
from pathlib import Path

import numpy as np
import pytest
import spacy
from conftest import SMALL, random_bilm
from spacy.util import load_config
from thinc.api import Optimizer, registry

from spacy_elmo.bilm.formats import native
from spacy_elmo.layers.scalar_mix import ScalarMix

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf8")


def section(title: str) -> str:
    return README.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def blocks(text: str, language: str = "") -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def test_the_two_commands_are_two() -> None:
    """The first runs the main job, the second the tests."""
    assert blocks(section("The two commands")) == [
        "python -m spacy project run all projects/quickstart\n",
        "python -m pytest\n",
    ]
    assert (ROOT / "projects" / "quickstart" / "project.yml").is_file()


def test_installation_stands_apart_and_its_extras_exist() -> None:
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg")
    (install,) = blocks(section("Install"))
    assert install == 'python -m pip install -e ".[dev]"\n'
    named = set(re.findall(r"extra `(\w+)`", README)) | {"dev"}
    assert named == set(settings["options.extras_require"])
    assert "pip install" not in README.replace(section("Install"), "")


@pytest.mark.parametrize("number", [0, 1])
def test_its_python_runs(number: int) -> None:
    code = blocks(README, "python")
    assert len(code) == 2
    names: dict = {}
    exec(code[number], names)
    if number == 0:
        assert names["doc"]._.elmo.layers.shape[1] == len(names["doc"].tensor) == 8
    else:
        vectors = names["embedder"]([["Two", "sentences", "."], ["As", "words"]])
        assert [layers.shape[1] for layers in vectors] == [3, 2]


@pytest.mark.parametrize("other", ["another biLM", "no biLM"])
def test_a_name_given_to_spacy_load_changes_nothing(
    bilm_dir: Path, tmp_path: Path, other: str
) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"model": {"name": str(bilm_dir)}})
    nlp.to_disk(tmp_path / "saved")
    if other == "another biLM":
        native.write(SMALL, random_bilm(seed=1).state_dict(), tmp_path / "other")
    overrides = {"components.elmo.model.name": str(tmp_path / "other")}
    loaded = spacy.load(tmp_path / "saved", config=overrides)
    assert loaded.config["components"]["elmo"]["model"]["name"] == str(tmp_path / "other")
    text = "Ann met Bob."
    np.testing.assert_array_equal(loaded(text)._.elmo.layers, nlp(text)._.elmo.layers)


@pytest.mark.parametrize("l2", [0.01, 0.0])
def test_the_optimizers_l2_draws_gamma_to_zero(l2: float) -> None:
    """README says so beside the mix's own `l2`."""
    config = load_config(ROOT / "configs" / "ner.cfg").interpolate()["training"]["optimizer"]
    assert config["L2"] == 0.01
    adam: Optimizer = registry.resolve({"adam": {**config, "L2": l2}})["adam"]
    mix = ScalarMix(l2=0.0)
    mix.set_dim("nL", 3)
    mix.set_dim("nO", 4)
    mix.initialize()
    for _ in range(200):
        mix.inc_grad("gamma", mix.ops.alloc1f(1))
        mix.finish_update(adam)
    gamma = mix.get_param("gamma")[0]
    assert gamma < 0.9999 if l2 else gamma == 1.0


def test_doc_to_json_holds_no_layers(nlp: spacy.language.Language) -> None:
    doc = nlp("Ann met Bob")
    with pytest.raises(ValueError, match="E107"):
        doc.to_json(underscore=["elmo"])
    assert "tensor" not in doc.to_json()
