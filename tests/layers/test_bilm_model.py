"""The biLM as a Thinc model: Docs in, layers out."""

import time

import numpy as np
import pytest
import spacy
from largest_tensor import LargestTensor
from spacy.tokens import Doc

from spacy_elmo.bilm.embedder import Embedder
from spacy_elmo.layers.bilm_model import Reading, bilm_model
from spacy_elmo.spans import doc_spans, sentence_spans, strided_spans

NLP = spacy.blank("en")
TEXTS = [
    "The river rose in the night. Nobody had seen it coming!",
    "One",
    "",
    "They sat by the bank of the river. The bank was closed. It rained.",
    " \n ",
    "\n\nA title\n\nSome text,  with gaps. More of it.\n",
    "🦊🦊 and naïve 日本語 Ελλάδα עברית!",
]


def make_doc(words):
    return Doc(NLP.vocab, words=words)


def make_model(bilm_dir, get_spans=None, batch_words=4096, carry_state=False, trainable=False):
    reading = Reading(get_spans or sentence_spans(), batch_words, carry_state)
    return bilm_model(str(bilm_dir), trainable=trainable, reading=reading)


def plain_layers(bilm, doc, spans, carry=False):
    """Span after span by the embedder, added up in the Doc's rows, divided by how often they are read."""
    seen = [[token for token in span if not token.is_space] for span in spans]
    seen = [tokens for tokens in seen if tokens]
    sentences = [[token.text for token in tokens] for tokens in seen]
    embedder = Embedder(bilm)
    read = embedder.carry([sentences])[0] if carry else [embedder([s])[0] for s in sentences]
    total = np.zeros((bilm.n_layers, len(doc), bilm.config.width))
    times = np.zeros(len(doc))
    for tokens, X in zip(seen, read, strict=True):
        for row, token in enumerate(tokens):
            total[:, token.i] += np.asarray(X.detach() if carry else X)[:, row]
            times[token.i] += 1
    return total / np.maximum(times, 1)[:, None]


def test_layers_are_those_of_the_embedder(bilm_dir, bilm):
    docs = [NLP.make_doc(text) for text in TEXTS]
    found = make_model(bilm_dir).predict(docs)
    for doc, X, spans in zip(docs, found, sentence_spans()(docs), strict=True):
        assert X.shape == (3, len(doc), 16)
        assert X.dtype == np.float32
        np.testing.assert_allclose(X, plain_layers(bilm, doc, spans), atol=1e-5)


def test_dimensions_are_the_bilms(bilm_dir):
    model = make_model(bilm_dir)
    assert model.has_dim("nL") is None
    model.initialize()
    assert (model.get_dim("nL"), model.get_dim("nO")) == (3, 16)


@pytest.mark.parametrize("batch_words", [1, 7, 40])
def test_the_budget_of_words_changes_nothing(bilm_dir, batch_words):
    docs = [NLP.make_doc(text) for text in TEXTS]
    for carry in (False, True):
        expected = make_model(bilm_dir, carry_state=carry).predict(docs)
        model = make_model(bilm_dir, batch_words=batch_words, carry_state=carry)
        for X, Y in zip(expected, model.predict(docs), strict=True):
            np.testing.assert_allclose(Y, X, atol=1e-5)


@pytest.mark.parametrize("carry_state", [False, True])
def test_a_span_of_whitespace_is_not_read(bilm_dir, carry_state):
    words = ["One", ".", "\n", " ", "Two", "."]
    doc, other = make_doc(words), make_doc([word for word in words if not word.isspace()])
    for token, start in zip(doc, (1, 0, 1, 0, 1, 0), strict=True):
        token.is_sent_start = bool(start)
    X, Y = make_model(bilm_dir, carry_state=carry_state).predict([doc, other])
    np.testing.assert_allclose(X[:, [0, 1, 4, 5]], Y, atol=1e-6)
    assert not X[:, 2:4].any()


def test_whitespace_is_not_shown_to_the_bilm(bilm_dir):
    words = ["\n", "Hello", " ", "wide", "world", "\n\n", ".", "\t"]
    shown = [1, 3, 4, 6]
    X, Y = make_model(bilm_dir).predict([make_doc(words), make_doc([words[i] for i in shown])])
    np.testing.assert_allclose(X[:, shown], Y, atol=1e-6)
    assert not X[:, [0, 2, 5, 7]].any()


def test_tokens_of_several_spans_get_the_average(bilm_dir, bilm):
    doc = make_doc([f"word{i}" for i in range(11)])
    get_spans = strided_spans(window=5, stride=2)
    (X,) = make_model(bilm_dir, get_spans).predict([doc])
    (spans,) = get_spans([doc])
    assert max(sum(token in span for span in spans) for token in doc) == 3
    np.testing.assert_allclose(X, plain_layers(bilm, doc, spans), atol=1e-5)
    alone = make_model(bilm_dir).predict([doc])[0]
    assert np.abs(X - alone)[1:].max() > 1e-3


def test_tokens_of_no_span_get_zeros(bilm_dir):
    doc = make_doc(["a", "b", "c", "d"])
    (X,) = make_model(bilm_dir, lambda docs: [[doc[1:3]] for doc in docs]).predict([doc])
    assert X[:, 1:3].any() and not X[:, [0, 3]].any()


def test_carried_state_is_the_embedders(bilm_dir, bilm):
    docs = [NLP.make_doc(text) for text in TEXTS]
    found = make_model(bilm_dir, carry_state=True).predict(docs)
    for doc, X, spans in zip(docs, found, sentence_spans()(docs), strict=True):
        np.testing.assert_allclose(X, plain_layers(bilm, doc, spans, carry=True), atol=1e-5)
    without = make_model(bilm_dir).predict(docs)
    first = sentence_spans()([docs[0]])[0][0]
    np.testing.assert_allclose(found[0][:, : len(first)], without[0][:, : len(first)], atol=1e-5)
    assert np.abs(found[0] - without[0])[1:, len(first) :].max() > 1e-3


@pytest.mark.parametrize("carry_state", [False, True])
def test_a_doc_does_not_see_the_others(bilm_dir, carry_state):
    model = make_model(bilm_dir, carry_state=carry_state)
    docs = [NLP.make_doc(text) for text in TEXTS]
    together = model.predict(docs)
    backwards = model.predict(docs[::-1])[::-1]
    for doc, X, Y in zip(docs, together, backwards, strict=True):
        np.testing.assert_allclose(Y, X, atol=1e-5)
        np.testing.assert_allclose(model.predict([doc])[0], X, atol=1e-5)


@pytest.mark.parametrize("get_spans", [sentence_spans(), strided_spans(), doc_spans()])
@pytest.mark.parametrize("carry_state", [False, True])
@pytest.mark.parametrize("words", [[], ["one"], [" ", "\n"], ["x" * 5000, "."]])
def test_unusual_docs(bilm_dir, words, get_spans, carry_state):
    model = make_model(bilm_dir, get_spans, carry_state=carry_state)
    for docs in ([make_doc(words)], [make_doc(words), make_doc(["and", "more"]), make_doc(words)]):
        for doc, X in zip(docs, model.predict(docs), strict=True):
            assert X.shape == (3, len(doc), 16)
            assert np.isfinite(X).all()
            rows = [i for i, token in enumerate(doc) if not token.is_space]
            assert X[:, rows].any(axis=(0, 2)).all()
    assert model.predict([]) == []


def test_words_are_told_apart_by_their_first_48_bytes(bilm_dir):
    words = [
        "x" * 48 + "a",
        "x" * 48 + "b",
        "x" * 47 + "a",
        "🦊" * 12 + "a",
        "🦊" * 12 + "b",
        "🦊" * 11 + "zzz",
    ]
    (X,) = make_model(bilm_dir).predict([make_doc(words)])
    same = [[np.array_equal(X[0, i], X[0, j]) for j in range(6)] for i in range(6)]
    assert same == [[i == j or {i, j} in ({0, 1}, {3, 4}) for j in range(6)] for i in range(6)]


def test_lone_surrogates(bilm_dir):
    try:
        doc = make_doc(["a\ud800b", "\udfff"])
    except UnicodeEncodeError:
        pytest.skip("spaCy's own strings hold no lone surrogates")
    assert np.isfinite(make_model(bilm_dir).predict([doc])[0]).all()


def test_a_doc_of_100000_tokens(bilm_dir):
    sentence = ["page", "after", "page", "after", "page", "after", "page", "after", "page", "."]
    doc = make_doc(sentence * 10_000)
    start = time.process_time()
    with LargestTensor() as memory:
        (X,) = make_model(bilm_dir).predict([doc])
    assert time.process_time() - start < 30
    assert X.shape == (3, 100_000, 16)
    assert memory.elements <= X.size, "nothing on the way is larger than the result"
    np.testing.assert_allclose(X[:, -10:], X[:, :10], atol=1e-5)
    assert np.isfinite(X).all() and X.any(axis=(0, 2)).all()


def test_a_budget_below_one_word_is_refused():
    with pytest.raises(ValueError, match="batch_words is 0, expected at least 1"):
        Reading(sentence_spans(), 0, False)
