"""The same vectors as the reference implementation's, and as a second implementation's."""

import json
from dataclasses import replace
from itertools import chain

import h5py
import numpy as np
import pytest
import torch
from conftest import SMALL, random_bilm
from numpy_bilm import NumpyBiLM

from spacy_elmo.bilm.embedder import Embedder
from spacy_elmo.bilm.formats import hdf5
from spacy_elmo.bilm.loading import load_bilm

SENTENCES = [
    ["The", "quick", "brown", "fox", "jumps", "."],
    [],
    ["Ärger", "über", "日本語", "🦊🦊", "\ud800x", ""],
    ["a", "incomprehensibilities" * 3, "a"],
    ["ß" * 23, "ß" * 24, "ß" * 25],
]
CONFIGS = {
    "as the others": SMALL,
    "no highway": replace(SMALL, n_highway=0),
    "two highways": replace(SMALL, n_highway=2),
    "tanh": replace(SMALL, activation="tanh"),
    "no skip connections": replace(SMALL, skip_connections=False),
    "three layers": replace(SMALL, n_layers=3),
    "one layer": replace(SMALL, n_layers=1),
    "cells not projected": replace(SMALL, cell_dim=SMALL.projection_dim),
    "characters not projected": replace(SMALL, filters=((1, 3), (4, 5))),
    "no bounds": replace(SMALL, cell_clip=None, projection_clip=None),
    "narrow bounds": replace(SMALL, cell_clip=0.3, projection_clip=0.2),
    "short words": replace(SMALL, max_characters=20),
}


@pytest.fixture(scope="module")
def streams(reference):
    """Three streams of ten sentences, and the top layer of each sentence."""
    texts = json.loads((reference / "lm_embeddings_sentences.json").read_text())
    sentences = [[text.split() for text in stream] for stream in texts]
    expected = []
    for k in range(len(sentences)):
        with h5py.File(reference / f"lm_embeddings_{k}.hdf5") as file:
            stored = [file[str(i)][()] for i in range(len(file))]
        # Stored as (direction, words, 16).
        expected.append([np.concatenate([*directions], axis=-1) for directions in stored])
    return sentences, expected


def largest_difference(streams, results):
    _, expected = streams
    differences = [
        np.abs(np.asarray(result)[-1] - top).max()
        for results_of_stream, stream in zip(results, expected, strict=True)
        for result, top in zip(results_of_stream, stream, strict=True)
    ]
    assert len(differences) == 30
    return max(differences)


@pytest.mark.parametrize("batch_words", [1, 50, 100, 4096])
def test_carrying_the_state_gives_the_reference_embeddings(reference, streams, batch_words):
    embedder = Embedder(load_bilm(reference), batch_words=batch_words)
    with torch.no_grad():
        results = embedder.carry(streams[0])
    assert largest_difference(streams, results) <= 1e-5


def test_without_carrying_the_state_the_reference_embeddings_are_missed(reference, streams):
    embedder = Embedder(load_bilm(reference))
    assert largest_difference(streams, [embedder(stream) for stream in streams[0]]) > 0.5


def test_the_second_implementation_gives_the_reference_embeddings(reference, streams):
    plain = NumpyBiLM(reference / "options.json", reference / "lm_weights.hdf5")
    assert largest_difference(streams, [plain.carry(stream) for stream in streams[0]]) <= 1e-5


@pytest.fixture(scope="module", params=CONFIGS.values(), ids=CONFIGS.keys())
def implementations(request, tmp_path_factory):
    """A biLM in float64, written and read back, and the second implementation on its files."""
    place = tmp_path_factory.mktemp("model")
    files = (place / "options.json", place / "weights.hdf5")
    hdf5.write(request.param, random_bilm(request.param).state_dict(), *files)
    return load_bilm(place).double(), NumpyBiLM(*files)


def test_two_implementations_agree_from_the_zero_state(implementations):
    bilm, plain = implementations
    results = zip(Embedder(bilm)(SENTENCES), plain.embed(SENTENCES), strict=True)
    for ours, theirs in results:
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-10)


def test_two_implementations_agree_on_carried_state(implementations):
    bilm, plain = implementations
    with torch.no_grad():
        documents = Embedder(bilm).carry([SENTENCES, SENTENCES[::-1]])
    expected = [plain.carry(SENTENCES), plain.carry(SENTENCES[::-1])]
    for ours, theirs in zip(chain(*documents), chain(*expected), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-10)


def test_float32_is_as_exact_as_float32_can_be(hdf5_dir):
    plain = NumpyBiLM(hdf5_dir / "options.json", hdf5_dir / "weights.hdf5")
    results = zip(Embedder(load_bilm(hdf5_dir))(SENTENCES), plain.embed(SENTENCES), strict=True)
    for ours, theirs in results:
        assert ours.dtype == np.float32
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
