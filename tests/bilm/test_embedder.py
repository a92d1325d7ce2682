from dataclasses import replace

import numpy as np
import pytest
import torch
from conftest import SMALL, random_bilm
from hypothesis import given, settings
from hypothesis import strategies as st
from largest_tensor import LargestTensor
from torch.utils._python_dispatch import TorchDispatchMode

from spacy_elmo.bilm import packed_lstm, packed_tokens
from spacy_elmo.bilm.embedder import Embedder
from spacy_elmo.bilm.engine import Engine
from spacy_elmo.bilm.model import BiLM

# Many scripts, emoji, lone surrogates, no characters at all, more bytes than are read.
WORDS = st.text(st.characters(), max_size=5) | st.sampled_from(
    [
        "the",
        "The",
        "naïve",
        "слово",
        "日本語",
        "ภาษาไทย",
        "👩‍👩‍👧‍👦",
        "\ud83d",
        "",
        " ",
        "<S>",
        "x" * 48,
        "x" * 500,
    ]
)
SENTENCES = st.lists(WORDS, max_size=6)
DOCUMENTS = st.lists(st.lists(SENTENCES, max_size=4), max_size=4)
BATCH_WORDS = st.integers(1, 60)


@pytest.fixture(scope="module")
def exact() -> BiLM:
    """In float64, where a difference is a mistake and not rounding."""
    return random_bilm().double()


def assert_same(ours, theirs, tolerance=1e-10):
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@settings(deadline=None, max_examples=20)
@given(st.lists(SENTENCES, max_size=6), BATCH_WORDS)
def test_float32_is_the_same_to_its_precision(bilm, sentences, batch_words):
    together = Embedder(bilm, batch_words=batch_words)(sentences)
    alone = [Embedder(bilm)([sentence])[0] for sentence in sentences]
    assert_same(together, alone, tolerance=1e-5)


@settings(deadline=None, max_examples=40)
@given(st.lists(SENTENCES, max_size=6), BATCH_WORDS)
def test_a_sentence_has_the_same_vectors_alone_and_in_any_batch(exact, sentences, batch_words):
    together = Embedder(exact, batch_words=batch_words)(sentences)
    assert_same(together, [Embedder(exact)([sentence])[0] for sentence in sentences])


@settings(deadline=None, max_examples=40)
@given(st.lists(SENTENCES, min_size=1, max_size=6), BATCH_WORDS, st.randoms())
def test_order_and_repetition_do_not_matter(exact, sentences, batch_words, random):
    embedder = Embedder(exact, batch_words=batch_words)
    order = random.choices(range(len(sentences)), k=2 * len(sentences))
    straight = embedder(sentences)
    assert_same(embedder([sentences[i] for i in order]), [straight[i] for i in order])


@settings(deadline=None, max_examples=20)
@given(st.lists(SENTENCES, min_size=1, max_size=6), BATCH_WORDS)
def test_results_have_the_stated_shape_and_are_finite(bilm, sentences, batch_words):
    results = Embedder(bilm, batch_words=batch_words)(sentences)
    shapes = [(SMALL.n_layers + 1, len(sentence), SMALL.width) for sentence in sentences]
    assert [layers.shape for layers in results] == shapes
    assert all(layers.dtype == np.float32 and np.isfinite(layers).all() for layers in results)


@settings(deadline=None, max_examples=30)
@given(DOCUMENTS, BATCH_WORDS)
def test_a_document_read_with_carried_state_depends_on_itself_alone(exact, documents, batch_words):
    embedder = Embedder(exact, batch_words=batch_words)
    with torch.no_grad():
        together = embedder.carry(documents)
        alone = [embedder.carry([document])[0] for document in documents]
    assert [len(results) for results in together] == [len(document) for document in documents]
    for ours, theirs in zip(together, alone, strict=True):
        assert_same(ours, theirs)


@settings(deadline=None, max_examples=20)
@given(st.lists(SENTENCES, min_size=1, max_size=4), BATCH_WORDS)
def test_the_first_sentence_of_a_document_starts_from_the_zero_state(exact, document, batch_words):
    embedder = Embedder(exact, batch_words=batch_words)
    with torch.no_grad():
        (carried,) = embedder.carry([document])
    assert_same(carried[:1], embedder(document[:1]))


@torch.no_grad()
def test_later_sentences_of_a_document_start_from_the_state_before_them(bilm):
    embedder = Embedder(bilm)
    (a,) = embedder.carry([[["one", "two"], ["three"]]])
    (b,) = embedder.carry([[["three", "four"], ["three"]]])
    (fresh,) = embedder.tensors([["three"]])
    assert (a[1] - b[1]).abs().max() > 0.01
    assert (a[1] - fresh).abs().max() > 0.01


def test_calls_leave_no_state_behind(bilm):
    embedder = Embedder(bilm, batch_words=20)
    sentences = [["one", "two", "three"], ["four"], [], ["five"] * 30]
    first = embedder(sentences)
    with torch.no_grad():
        embedder.carry([sentences, [["something", "else"]]])
    for a, b in zip(first, embedder(sentences), strict=True):
        np.testing.assert_array_equal(a, b)


def test_context_and_characters_are_read(bilm):
    (layers,) = Embedder(bilm)([["same", "same", "name"]])
    np.testing.assert_array_equal(layers[0, 0], layers[0, 1])
    assert np.abs(layers[1:, 0] - layers[1:, 1]).max() > 0.01
    assert np.abs(layers[0, 1] - layers[0, 2]).max() > 0.01


def test_nothing_has_no_vectors(bilm):
    embedder = Embedder(bilm)
    assert embedder([]) == []
    assert embedder([[]])[0].shape == (3, 0, SMALL.width)
    assert embedder.carry([]) == []
    assert embedder.carry([[], [[]]])[0] == []


def test_sentences_may_come_from_generators_and_tuples(exact):
    embedder = Embedder(exact)
    expected = embedder([["a", "b"], ["c"]])
    assert_same(embedder(sentence for sentence in (("a", "b"), ("c",))), expected)
    documents = (iter([["a", "b"]]), iter([["c"]]))
    with torch.no_grad():
        assert_same([result for (result,) in embedder.carry(documents)], expected)


@pytest.mark.parametrize("sentences", [["a sentence"], "a sentence", [["a", 1]], [["a"], [None]]])
def test_what_is_no_list_of_words_is_refused_with_an_example(bilm, sentences):
    for read in (Embedder(bilm), lambda given: Embedder(bilm).carry([given])):
        with pytest.raises(TypeError, match=r"expected a list of words: embedder\(\[\['one', "):
            read(sentences)


@pytest.mark.parametrize("batch_words", [0, -1])
def test_a_batch_of_no_words_is_refused(bilm, batch_words):
    with pytest.raises(ValueError, match=rf"batch_words is {batch_words}, expected at least 1"):
        Embedder(bilm, batch_words=batch_words)


def test_a_sentence_of_thousands_of_words(exact, monkeypatch):
    words = [f"word{i % 700}" for i in range(5000)]
    _, layers = Embedder(exact, batch_words=100)([["short"], words])
    assert layers.shape == (3, 5000, SMALL.width) and np.isfinite(layers).all()
    monkeypatch.setattr(packed_lstm, "GATE_ROWS", 1_000_000)
    monkeypatch.setattr(packed_tokens, "CHAR_CNN_WORDS", 1_000_000)
    assert_same([layers], Embedder(exact, batch_words=100_000)([words]))


def test_autograd_records_tensors_where_it_is_enabled(bilm):
    embedder = Embedder(bilm)
    (recorded,) = embedder.tensors([["a", "word"]])
    with torch.no_grad():
        (plain,) = embedder.tensors([["a", "word"]])
    assert recorded.requires_grad and not plain.requires_grad


def test_a_call_runs_no_operation_under_autograd(bilm):
    assert torch.is_grad_enabled()
    with GradModes() as modes:
        Embedder(bilm)([["a", "word"]])
    assert modes.seen == {False}


def test_gradients_of_tensors_reach_the_whole_bilm():
    bilm = random_bilm()
    results = Embedder(bilm, batch_words=5).tensors([["a", "word"], ["another"], []])
    sum(layers.square().sum() for layers in results).backward()
    assert all(p.grad is not None and p.grad.any() for p in bilm.parameters())


class GradModes(TorchDispatchMode):
    """Whether autograd was on at each operation."""

    def __init__(self):
        super().__init__()
        self.seen = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.add(torch.is_grad_enabled())
        return func(*args, **(kwargs or {}))


@torch.no_grad()
def test_a_result_does_not_keep_its_batch_alive(bilm):
    short, _ = Embedder(bilm).tensors([["short"], ["long"] * 50])
    assert short.untyped_storage().nbytes() == short.numel() * short.element_size()


def test_a_batch_leaves_the_device_before_the_next_is_read(bilm, monkeypatch):
    events = []
    read, cpu = Engine.read, torch.Tensor.cpu

    def spy_on_read(*args):
        events.append("read")
        return read(*args)

    def spy_on_cpu(tensor):
        if tensor.dim() == 3:
            events.append("moved")
        return cpu(tensor)

    monkeypatch.setattr(Engine, "read", spy_on_read)
    monkeypatch.setattr(torch.Tensor, "cpu", spy_on_cpu)
    Embedder(bilm, batch_words=6)([["a"], ["b"], ["c"]])
    assert events == ["read", "moved", "moved", "read", "moved"]


def test_current_weights_are_used():
    bilm = random_bilm()
    embedder = Embedder(bilm)
    (before,) = embedder([["a", "word"]])
    with torch.no_grad():
        bilm.token_encoder.projection.bias.add_(1)
    (after,) = embedder([["a", "word"]])
    np.testing.assert_allclose(after[0], before[0] + 1, atol=1e-5)


@pytest.mark.parametrize("carry", [False, True])
def test_a_batch_keeps_to_its_budget_of_words(bilm, monkeypatch, carry):
    sizes = []
    name = "carry" if carry else "read"
    method = getattr(Engine, name)

    def spy(self, sentences, *state):
        longest = max(len(sentence) + 2 for sentence in sentences)
        sizes.append((longest * len(sentences), len(sentences)))
        return method(self, sentences, *state)

    monkeypatch.setattr(Engine, name, spy)
    sentences = [["word"] * (i * 7 % 40) for i in range(60)]
    embedder = Embedder(bilm, batch_words=64)
    if carry:
        with torch.no_grad():
            embedder.carry([sentences[i : i + 2] for i in range(0, 60, 2)])
    else:
        embedder(sentences)
    assert all(words <= 64 or n_sentences == 1 for words, n_sentences in sizes)
    # The budget is used, not just kept to.
    assert max(n_sentences for _, n_sentences in sizes) > 2


def test_distinct_words_are_encoded_once(bilm, encoded):
    embedder = Embedder(bilm, batch_words=20)
    embedder([["the", "cat", "the", "hat"], ["the", "cat"], ["hat"]] * 10)
    # The two boundaries, then the words of the shortest sentences first.
    assert encoded == [2, 1, 2]
    embedder([["a", "hat"]])
    assert encoded == [2, 1, 2, 1]


@pytest.mark.parametrize("kept_words", [0, 1, 3, 5])
def test_no_more_words_are_kept_than_allowed(exact, kept_words):
    sentences = [["one", "two", "one"], ["two", "three"], ["four", "five", "six", "one"]] * 2
    embedder = Embedder(exact, batch_words=8, kept_words=kept_words)
    assert_same(embedder(sentences), Embedder(exact)(sentences))
    assert_same(embedder(sentences), Embedder(exact)(sentences))
    assert len(embedder._engine._table) <= kept_words


def test_words_are_encoded_in_blocks_that_do_not_change_results(exact, encoded, monkeypatch):
    sentences = [["one", "two"], ["three", "four", "five" * 20]]
    whole = Embedder(exact)(sentences)
    monkeypatch.setattr(packed_tokens, "CHAR_CNN_WORDS", 3)
    assert_same(Embedder(exact)(sentences), whole)
    assert encoded == [2, 5, 2, 3, 2]


def test_no_tensor_grows_with_the_number_of_sentences(bilm, monkeypatch):
    """Thousands of distinct words, and no tensor beyond what one batch needs."""
    monkeypatch.setattr(packed_tokens, "CHAR_CNN_WORDS", 16)
    sentences = [[f"w{i}", f"v{i}"] for i in range(2000)]
    embedder = Embedder(bilm, batch_words=200, kept_words=150)
    with LargestTensor() as few:
        embedder(sentences[:100])
    with LargestTensor() as many:
        embedder(sentences)
    assert 0 < many.elements <= few.elements


@pytest.mark.parametrize("max_characters", [5, 20])
def test_words_are_cut_where_the_bilm_says(max_characters):
    bilm = random_bilm(replace(SMALL, max_characters=max_characters)).double()
    cut, whole = Embedder(bilm)([["x" * (max_characters - 2)], ["x" * 300]])
    assert_same(cut, whole)
