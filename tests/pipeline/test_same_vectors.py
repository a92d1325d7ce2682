"""Same text, same vectors: for any order, batch size, repetition and process."""

import numpy as np
import pytest
import spacy
from pipelines import TEXTS, add_elmo, make_nlp

MANY = [*TEXTS, *(f"{text} Number {n}." for n in range(3) for text in TEXTS)]
READINGS = {
    "sentences": {},
    "carried": {"carry_state": True},
    "strided": {"get_spans": {"@misc": "spacy-elmo.strided_spans.v1", "window": 6, "stride": 4}},
    "docs": {"get_spans": {"@misc": "spacy-elmo.doc_spans.v1"}},
    "small batches": {"batch_words": 20},
}


@pytest.fixture(scope="module", params=list(READINGS))
def nlp(bilm_dir, request):
    nlp = spacy.blank("en")
    add_elmo(nlp, bilm_dir, **READINGS[request.param])
    return nlp


@pytest.fixture(scope="module")
def expected(nlp):
    """One Doc after the other."""
    return [nlp(text) for text in MANY]


def assert_same(expected, found):
    for one, other in zip(expected, found, strict=True):
        assert one.text == other.text
        np.testing.assert_allclose(other._.elmo.layers, one._.elmo.layers, atol=1e-5)
        np.testing.assert_allclose(other.tensor, one.tensor, atol=1e-5)


@pytest.mark.parametrize("batch_size", [1, 2, 50])
def test_in_any_batch_size(nlp, expected, batch_size):
    assert_same(expected, nlp.pipe(MANY, batch_size=batch_size))


def test_in_any_order(nlp, expected):
    order = np.random.default_rng(0).permutation(len(MANY))
    found = list(nlp.pipe([MANY[i] for i in order], batch_size=5))
    assert_same([expected[i] for i in order], found)


def test_again(nlp, expected):
    assert_same(expected, nlp.pipe(nlp.pipe(MANY)))
    assert_same(expected, [nlp(text) for text in MANY])


def test_in_other_processes(nlp, expected):
    assert_same(expected, nlp.pipe(MANY, n_process=2, batch_size=4))


def test_predictions_in_other_processes(bilm_dir):
    """Listeners work in the workers as well."""
    nlp = make_nlp(bilm_dir, ("tagger", "parser", "ner"), keep_layers=False)
    found = list(nlp.pipe(MANY, n_process=2, batch_size=4))
    for doc, other in zip(nlp.pipe(MANY), found, strict=True):
        assert [(t.tag_, t.dep_, t.head.i, t.ent_type_) for t in doc] == [
            (t.tag_, t.dep_, t.head.i, t.ent_type_) for t in other
        ]
