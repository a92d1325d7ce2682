"""`name = "..."` takes a biLM in any layout, and the saved pipeline does without it."""

import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import spacy
from references import HERE, SENTENCES, layers_of, unpack_bilm_tf
from spacy.cli import app
from spacy.tokens import Doc
from spacy.util import load_config, load_model_from_config
from thinc.api import Config
from typer.testing import CliRunner

import spacy_elmo.cli  # noqa: F401  (spaCy finds it by its entry point when run as a program)
from spacy_elmo.layers.bilm_model import get_shim


def make(layout: str, place: Path) -> Path:
    if layout in ("bilm_tf_checkpoint", "many_langs_published"):
        return Path(shutil.copytree(HERE / layout, place / layout))
    unpack_bilm_tf("published", place / "hdf5")
    if layout == "hdf5":
        return place / "hdf5"
    if layout == "token vectors beside":
        shutil.copy(HERE / "bilm_tf_tokens.hdf5", place / "hdf5")
        shutil.copy(HERE / "bilm_tf_tokens.txt", place / "hdf5")
        return place / "hdf5"
    with zipfile.ZipFile(place / "217.zip", "w") as file:
        for path in (place / "hdf5").iterdir():
            file.write(path, path.name)
    return place / "217.zip"


LAYOUTS = ["hdf5", "token vectors beside", "zip", "bilm_tf_checkpoint", "many_langs_published"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_pipeline_gives_the_reference_vectors_and_is_whole(tmp_path: Path, layout: str) -> None:
    path = make(layout, tmp_path)
    stored = HERE / "bilm_tf_published.npz"
    if layout == "many_langs_published":
        stored = HERE / layout / "layers.npz"
    with np.load(stored) as file:
        expected = layers_of(file)
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"model": {"name": str(path)}})
    nlp.to_disk(tmp_path / "pipeline")
    path.rename(tmp_path / "gone")
    for each in (nlp, spacy.load(tmp_path / "pipeline")):
        for words, layers in zip(SENTENCES, expected, strict=True):
            # spaCy takes what is only whitespace for no word.
            if "\u3000" in words:
                continue
            starts = [i == 0 for i in range(len(words))]
            doc = each(Doc(each.vocab, words=words, sent_starts=starts))
            np.testing.assert_allclose(doc._.elmo.layers, layers, rtol=0, atol=1e-5)


def test_token_vectors_come_by_name_and_stay_in_the_pipeline(
    tmp_path: Path, encoded: list[int]
) -> None:
    """As AllenNLP's vocab_to_cache: words of the vocabulary are not spelled."""
    place = make("token vectors beside", tmp_path)
    words = (place / "bilm_tf_tokens.txt").read_text(encoding="utf8").split()[2:]
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"model": {"name": str(place)}})
    nlp.to_disk(tmp_path / "pipeline")
    other = spacy.blank("en")
    other.add_pipe("elmo", config={"model": {"name": str(place)}})
    other.from_bytes(nlp.to_bytes())
    # Loading reads three of them, to see that they are the biLM's.
    encoded.clear()
    for each in (nlp, spacy.load(tmp_path / "pipeline"), other):
        doc = each(Doc(each.vocab, words=words))
        assert set(encoded) == {2}, "more than the two boundaries was spelled"
        each(Doc(each.vocab, words=["unknown", *words]))
        assert 1 in encoded and max(encoded) == 2
        encoded.clear()
        assert doc._.elmo.layers.shape[1] == len(words)


def test_a_bilm_that_is_trained_has_no_token_vectors(tmp_path: Path) -> None:
    """They are of weights that are about to change."""
    model = {"name": str(make("token vectors beside", tmp_path)), "trainable": True}
    nlp = spacy.blank("en")
    elmo = nlp.add_pipe("elmo", config={"model": model})
    nlp.initialize()
    assert get_shim(elmo.model).bilm.token_cache is None
    nlp.to_disk(tmp_path / "pipeline")
    assert not list((tmp_path / "pipeline").rglob("token_cache*"))


def test_two_paths_are_one_name_in_a_config(tmp_path: Path) -> None:
    place = make("hdf5", tmp_path)
    (tmp_path / "elsewhere").mkdir()
    options = (place / "options.json").rename(tmp_path / "elsewhere" / "sizes.json")
    name = f"{options},{place / 'model.hdf5'}"
    written = tmp_path / "config.cfg"
    command = ["elmo", "init-config", "--pipeline", "ner", "--model", name, "-o", str(written)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.stdout
    config = load_config(written)
    assert config["paths"]["bilm"] == name
    again = Config().from_str(load_model_from_config(config).config.to_str())
    for each in (config, again, load_config(written, overrides={"paths.bilm": name})):
        nlp = load_model_from_config(each, auto_fill=True)
        assert get_shim(nlp.get_pipe("elmo").model).name == name
        assert nlp.get_pipe("elmo").sizes() == (3, 12)
