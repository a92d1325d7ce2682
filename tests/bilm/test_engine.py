"""The engine gives what the plain modules give."""

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event

import numpy as np
import pytest
import torch
from conftest import SMALL, random_bilm
from hypothesis import given, settings
from hypothesis import strategies as st
from largest_tensor import LargestTensor

from spacy_elmo import Embedder, load_bilm
from spacy_elmo.bilm.engine import Engine
from spacy_elmo.bilm.model import BiLM
from spacy_elmo.bilm.plain_reader import PlainReader
from spacy_elmo.bilm.side_by_side import side_by_side

SIZES = {
    "as published": {},
    "cells that are not projected": {"cell_dim": 8},
    "cells projected to their own width": {"cell_dim": 8, "always_project": True},
    "nothing clipped": {"cell_clip": None, "projection_clip": None},
    "all clipped": {"cell_clip": 0.1, "projection_clip": 0.05},
    "no skip connections": {"skip_connections": False},
    "no highway": {"n_highway": 0},
    "three layers": {"n_layers": 3, "n_highway": 2, "activation": "tanh"},
}
WORDS = st.sampled_from(["a", "b", "cat", "日本", "supercalifragilistic"])
SENTENCES = st.lists(st.lists(WORDS, max_size=7), max_size=6)


@pytest.fixture(params=list(SIZES), scope="module")
def exact(request) -> BiLM:
    return random_bilm(replace(SMALL, **SIZES[request.param])).double()


def engine(bilm: BiLM) -> Engine:
    return Engine(bilm, "float32", kept_words=4, token_cache=None)


def assert_close(ours, theirs, atol=1e-10):
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert a.shape == b.shape
        torch.testing.assert_close(a, b, rtol=0, atol=atol)


@settings(deadline=None, max_examples=15)
@given(sentences=SENTENCES.filter(any), threads=st.integers(1, 4))
def test_layers_are_those_of_the_plain_modules(exact, sentences, threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        ours = engine(exact).read(sentences)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    with torch.no_grad():
        assert_close(ours, PlainReader(exact).read(sentences))


@torch.no_grad()
def test_states_are_those_of_the_plain_modules(exact):
    state = exact.zero_state(4)
    for part in (*state.forward, *state.backward):
        torch.nn.init.uniform_(part, -0.5, 0.5)
    sentences = [["a", "b"], [], ["cat", "a", "dog"], ["b"]]
    layers, after = engine(exact).carry(sentences, state)
    expected, expected_after = PlainReader(exact).carry(sentences, state)
    assert_close(layers, expected)
    for ours, theirs in zip(after, expected_after, strict=True):
        assert_close(ours, theirs)


def test_what_is_given_is_not_changed(exact):
    state = exact.zero_state(2)
    weights = {name: weight.clone() for name, weight in exact.state_dict().items()}
    engine(exact).carry([["a"], ["b", "cat"]], state)
    assert not any(part.any() for part in (*state.forward, *state.backward))
    for name, weight in exact.state_dict().items():
        torch.testing.assert_close(weight, weights[name], rtol=0, atol=0)


@pytest.fixture(scope="module")
def packaged() -> BiLM:
    return load_bilm("en_elmo_sm")


TEXT = [
    line.split()
    for line in (
        "The committee will publish its report on the river next week .",
        "Why not ?",
        "Zyxwvu and Qwertz , of Nowhere , met 3,141 people in 2024 -- 🦊 !",
    )
] * 5


def test_float32_of_a_trained_bilm(packaged):
    with torch.no_grad():
        expected = Embedder(packaged)._plain.read(TEXT)
    assert_close(engine(packaged).read(TEXT), expected, atol=2e-6)


@pytest.mark.parametrize(("precision", "cosine"), [("bfloat16", 0.999), ("int8", 0.99)])
def test_lower_precisions_come_near_and_differ(packaged, precision, cosine):
    exact, low = (Embedder(packaged, precision=p)(TEXT) for p in ("float32", precision))
    for a, b in zip(exact, low, strict=True):
        assert np.abs(a - b).max() > 1e-4
        products = (a * b).sum(-1) / np.linalg.norm(a, axis=-1) / np.linalg.norm(b, axis=-1)
        assert products.min() > cosine


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_lower_precisions_do_not_read_what_stands_beside(packaged, precision):
    """Up to a step of the rounding here and there."""
    embedder = Embedder(packaged, precision=precision)
    together = embedder([*TEXT, ["!" * 40] * 60])
    for sentence, layers in zip(TEXT, together, strict=False):
        (alone,) = embedder([sentence])
        assert np.abs(layers - alone).max() < 0.05


def test_an_unknown_precision_is_refused(packaged):
    with pytest.raises(
        ValueError, match="precision is 'float8', expected one of float32, bfloat16"
    ):
        Embedder(packaged, precision="float8")


def test_the_first_vectors_need_no_copy_of_a_weight():
    """Else a biLM would be in memory twice before it has read a sentence."""
    bilm = random_bilm(replace(SMALL, projection_dim=100, cell_dim=200))
    smallest = bilm.forward_lm.layers[0].projection.numel()
    embedder = Embedder(bilm)
    with LargestTensor() as largest:
        embedder([["a", "few", "words"]])
    assert 0 < largest.elements < smallest


def test_threads_may_share_an_embedder(packaged):
    words = [f"{a}{b}" for a in "abcdefghijklmnopqrstuvwxyz" for b in range(100)]
    random.Random(0).shuffle(words)
    texts = [[words[i : i + n] for n in (1, 5, 9)] for i in range(0, len(words), 20)]
    expected = [Embedder(packaged)(text) for text in texts]
    with ThreadPoolExecutor(4) as pool:
        # Where few words are kept, threads also forget each other's.
        for kept_words in (100, 50_000):
            found = pool.map(Embedder(packaged, kept_words=kept_words), texts)
            for ours, theirs in zip(found, expected, strict=True):
                for a, b in zip(ours, theirs, strict=True):
                    np.testing.assert_allclose(a, b, rtol=0, atol=1e-5)


# Side by side


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    assert torch.get_num_threads() == 2
    torch.set_num_threads(before)


def test_each_has_half_of_the_threads_and_its_own_result(two_threads):
    def count(name):
        return lambda stop: (name, torch.get_num_threads())

    assert side_by_side(count("a"), count("b")) == (("a", 1), ("b", 1))


@pytest.mark.parametrize("failing", [0, 1])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failure_of_one_stops_the_other_and_is_raised(two_threads, failing, error):
    def fail(stop: Event):
        raise error("told")

    def wait(stop: Event):
        assert stop.wait(timeout=60)

    computations = [wait, wait]
    computations[failing] = fail
    with pytest.raises(error, match="told"):
        side_by_side(*computations)
