"""`name = "..."` takes a biLM in any layout, and the saved pipeline does without it."""

import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import spacy
from references import HERE, SENTENCES, layers_of, unpack_bilm_tf
from spacy.tokens import Doc


def make(layout: str, place: Path) -> Path:
    if layout in ("bilm_tf_checkpoint", "many_langs_published"):
        return Path(shutil.copytree(HERE / layout, place / layout))
    unpack_bilm_tf("published", place / "hdf5")
    if layout == "hdf5":
        return place / "hdf5"
    with zipfile.ZipFile(place / "217.zip", "w") as file:
        for path in (place / "hdf5").iterdir():
            file.write(path, path.name)
    return place / "217.zip"


@pytest.mark.parametrize("layout", ["hdf5", "zip", "bilm_tf_checkpoint", "many_langs_published"])
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
