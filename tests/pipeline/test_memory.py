"""Memory is bounded by batch_words, whatever the documents and batches."""

import numpy as np
import pytest
import spacy
from peak_memory import PeakMemory
from pipelines import add_elmo, make_nlp
from spacy.tokens import Doc

WORDS = ["page", "after", "page", "after", "page", "after", "page", "after", "page", "."]
LAYERS_OF_A_WORD = 3 * 16 * 4  # layers, width, bytes


def make(bilm, batch_words=200, **settings):
    nlp = spacy.blank("en")
    add_elmo(nlp, bilm, batch_words=batch_words, **settings)
    nlp("Load the biLM.")
    return nlp


def docs_of(nlp, n_docs, sentences):
    return [Doc(nlp.vocab, words=WORDS * sentences) for _ in range(n_docs)]


def peak(nlp, docs, batch_size):
    with PeakMemory() as memory:
        for _ in nlp.pipe(docs, batch_size=batch_size):
            pass
    return memory.peak


@pytest.mark.parametrize("way", ["sentences", "overlapping"])
@pytest.mark.parametrize("sentences", [1, 10])
def test_it_does_not_follow_the_size_of_a_batch(bilm_dir, sentences, way):
    strided = {"@misc": "spacy-elmo.strided_spans.v1", "window": 20, "stride": 15}
    settings = {"get_spans": strided} if way == "overlapping" else {}
    nlp = make(bilm_dir, keep_layers=False, **settings)
    few = peak(nlp, docs_of(nlp, 400 // (10 * sentences), sentences), 1)
    n_docs = 20_000 // (10 * sentences)
    many = peak(nlp, docs_of(nlp, n_docs, sentences), 2000)
    assert many < 20_000 * LAYERS_OF_A_WORD / 4, "far below what all layers take"
    # A Doc at a time, or 200 words at a time.
    assert many < 8 * max(few, 200 * LAYERS_OF_A_WORD)


def test_it_follows_batch_words(bilm_dir):
    found = []
    for batch_words in (200, 2000):
        nlp = make(bilm_dir, batch_words, keep_layers=False)
        found.append(peak(nlp, docs_of(nlp, 500, 1), 1000))
    assert found[0] < found[1] / 2


def test_one_doc_of_100000_tokens_without_layers(bilm_dir):
    nlp = make(bilm_dir, 1000, keep_layers=False)
    (doc,) = docs_of(nlp, 1, 10_000)
    result = 100_000 * 16 * 4
    with PeakMemory() as memory:
        nlp(doc)
    assert memory.peak < 100_000 * LAYERS_OF_A_WORD / 10
    assert doc.tensor.nbytes == result
    np.testing.assert_allclose(doc.tensor[-10:], doc.tensor[:10], atol=1e-5)
    assert not doc._.elmo


def test_one_doc_of_100000_tokens_with_layers(bilm_dir):
    nlp = make(bilm_dir, 1000)
    (doc,) = docs_of(nlp, 1, 10_000)
    with PeakMemory() as memory:
        nlp(doc)
    assert memory.peak < 1.2 * doc._.elmo.layers.nbytes, "the layers themselves, and little beside"


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("kind", ["sentence", "strided", "doc"])
@pytest.mark.parametrize("carry", [False, True])
def test_parts_change_nothing(bilm_dir, kind, carry, normalize):
    mix = {"@layers": "spacy-elmo.ScalarMix.v1", "normalize_layers": normalize}
    reading = {"get_spans": {"@misc": f"spacy-elmo.{kind}_spans.v1"}, "carry_state": carry}
    whole = make(bilm_dir, 100_000, mix=mix, **reading)
    parts = make(bilm_dir, 15, mix=mix, keep_layers=False, **reading)
    texts = [
        "A b. C d e. F? G h i j k l. \n\n M n o p, q r s t u v w x. Y z.",
        "",
        "  ",
        "One two. ",
    ]
    words = " ".join(["word after word."] * 60)
    for doc, other in zip(whole.pipe([*texts, words]), parts.pipe([*texts, words]), strict=True):
        np.testing.assert_allclose(other.tensor, doc.tensor, atol=1e-5)


def test_order_and_errors_are_as_spacy_has_them(bilm_dir):
    nlp = make(bilm_dir, 10)
    texts = [f"text {n} " * (n % 7) for n in range(40)]
    assert [doc.text for doc in nlp.pipe(texts, batch_size=3)] == texts
    failed = []
    elmo = nlp.get_pipe("elmo")
    elmo.set_error_handler(lambda name, pipe, docs, error: failed.extend(docs))
    predict = elmo.predict

    def fail(docs):
        if any("text 2" in doc.text for doc in docs):
            raise ValueError
        return predict(docs)

    elmo.predict = fail
    docs = [nlp.make_doc(text) for text in texts]
    found = list(elmo.pipe(docs))
    assert failed and found == [doc for doc in docs if doc not in failed]
    docs = [nlp.make_doc("text 1"), nlp.make_doc("text 2")]
    assert [elmo(doc) for doc in docs] == [docs[0], None]


def test_layers_for_a_listener_are_kept(bilm_dir):
    nlp = make_nlp(bilm_dir, keep_layers=False, batch_words=10)
    docs = list(nlp.pipe(["Ann met Bob. She left."] * 5, batch_size=5))
    assert all(doc._.elmo.layers.any() for doc in docs)
