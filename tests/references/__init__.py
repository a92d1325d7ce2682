"""Weights and vectors made by the programs that define the layouts (see make_*.py beside)."""

import json
from collections.abc import Sequence
from pathlib import Path

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

from spacy_elmo.bilm import products
from spacy_elmo.bilm.embedder import Embedder
from spacy_elmo.bilm.model import BiLM

HERE = Path(__file__).parent
SENTENCES: list[list[str]] = json.loads((HERE / "sentences.json").read_text(encoding="utf8"))
Layers = Sequence[NDArray[np.float32]]


def assert_vectors(bilm: BiLM, expected: Layers, *, atol: float) -> None:
    """The layers of the reference sentences, each (layers, words, width), are those expected: by
    weights as they are, as for the first words, and by packed ones.
    """
    for rows in (products.ROWS_BEFORE_PACKING, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(products, "ROWS_BEFORE_PACKING", rows)
            patch.setattr(products, "onednn_is_faster", lambda: True)
            results = Embedder(bilm)(SENTENCES)
        for ours, theirs, sentence in zip(results, expected, SENTENCES, strict=True):
            assert ours.shape == theirs.shape and ours.shape[1] == len(sentence)
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=atol)


def bilm_tf_variants() -> list[str]:
    return sorted(path.stem.removeprefix("bilm_tf_") for path in HERE.glob("bilm_tf_*.npz"))


def layers_of(stored: np.lib.npyio.NpzFile) -> Layers:
    return [stored[f"layers/{i}"] for i in range(len(SENTENCES))]


def unpack_bilm_tf(variant: str, place: Path) -> Layers:
    """Write a variant's options.json and model.hdf5 into a directory, and give its layers."""
    place.mkdir(exist_ok=True)
    with np.load(HERE / f"bilm_tf_{variant}.npz") as stored:
        (place / "options.json").write_text(str(stored["options"]))
        with h5py.File(place / "model.hdf5", "w") as file:
            for key in stored:
                if key.startswith("weights/"):
                    file[key.removeprefix("weights/")] = stored[key]
        return layers_of(stored)
