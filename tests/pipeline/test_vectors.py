"""Vectors and similarities mean ELMo, with and without static vectors in the vocabulary."""

import warnings

import numpy as np
import pytest
import spacy
from conftest import SMALL, random_bilm
from pipelines import add_elmo
from spacy.vectors import Vectors

from spacy_elmo.bilm.formats import native


@pytest.fixture(params=["no static vectors", "static vectors"])
def nlp(bilm_dir, request):
    nlp = spacy.blank("en")
    if request.param == "static vectors":
        nlp.vocab.vectors = Vectors(shape=(4, 5))
        for word in ("bank", "river", "money"):
            nlp.vocab.set_vector(word, np.ones(5, dtype="float32"))
    add_elmo(nlp, bilm_dir)
    return nlp


def cosine(one, other):
    return one @ other / np.sqrt((one @ one) * (other @ other))


def test_vectors_are_those_of_the_tensor(nlp):
    doc = nlp("The bank of the river was high.")
    np.testing.assert_allclose(doc[1].vector, doc.tensor[1])
    np.testing.assert_allclose(doc[1:5].vector, doc.tensor[1:5].mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(doc.vector, doc.tensor.mean(axis=0), rtol=1e-5)
    assert doc.has_vector and doc[1:5].has_vector and doc[1].has_vector
    assert doc[1].vector_norm == pytest.approx(np.linalg.norm(doc.tensor[1]), rel=1e-5)


def test_similarities_are_those_of_the_tensor(nlp):
    one, other = nlp("The bank of the river"), nlp("Money from the bank")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert one.similarity(other) == pytest.approx(cosine(one.vector, other.vector), rel=1e-5)
        assert one[1].similarity(one[4]) == pytest.approx(
            cosine(one.tensor[1], one.tensor[4]), rel=1e-5
        )
        assert one[:2].similarity(other) == pytest.approx(
            cosine(one[:2].vector, other.vector), rel=1e-5
        )
        assert one[1].similarity(other[2:]) == pytest.approx(
            cosine(one.tensor[1], other[2:].vector), rel=1e-5
        )


def annotated_again_by_another_elmo(nlp, doc, bilm):
    other = spacy.blank("en", vocab=nlp.vocab)
    elmo = add_elmo(other, bilm)
    return elmo(doc)


def retokenized_and_annotated_again(nlp, doc, bilm):
    if nlp.vocab.vectors.size:
        pytest.skip("spaCy gives a merged token its span's vector, which fits no other width")
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[0:2])
    return nlp.get_pipe("elmo")(doc)


@pytest.mark.parametrize(
    "change", [annotated_again_by_another_elmo, retokenized_and_annotated_again]
)
def test_norms_and_similarities_are_those_of_the_tensor_as_it_is_now(nlp, tmp_path, change):
    """spaCy would keep the first norm that was asked for."""
    native.write(SMALL, random_bilm(seed=1).state_dict(), tmp_path)
    doc, other = nlp("The bank of the river"), nlp("Money from the bank")
    before = [float(of.vector_norm) for of in (doc, doc[:2], doc[0])]
    doc.similarity(other)
    doc = change(nlp, doc, tmp_path)
    for of, norm in zip((doc, doc[:2], doc[0]), before, strict=True):
        assert of.vector_norm == pytest.approx(np.linalg.norm(of.vector), rel=1e-5)
        assert of.vector_norm != pytest.approx(norm, rel=1e-3)
        assert of.similarity(other) == pytest.approx(cosine(of.vector, other.vector), rel=1e-5)


def test_the_same_word_in_other_words_is_not_the_same(nlp):
    """spaCy itself says 1 of the same word, whatever the vectors are."""
    one, other = nlp("The bank of the river"), nlp("Money from the bank")
    assert one[1].text == other[3].text
    assert one[1].similarity(other[3]) == pytest.approx(cosine(one.tensor[1], other.tensor[3]))
    assert one[1:2].similarity(other[3:4]) < 0.999
    assert one[1].similarity(one[1]) == pytest.approx(1.0, rel=1e-5)


@pytest.mark.parametrize("text", ["", "  \n"])
def test_vectors_of_nothing_are_zero(nlp, text):
    doc, other = nlp(text), nlp("bank")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert doc.vector.shape in ((16,), (0,)) and not doc.vector.any()
        assert not doc[0:0].vector.any()
        assert doc.similarity(other) == 0.0
    assert all(not token.vector.any() for token in doc)


def test_vectors_survive_storing(nlp):
    """Hooks do not; without static vectors spaCy finds the tensor by itself."""
    doc = nlp("The bank of the river")
    with pytest.warns(UserWarning, match="W109"):
        again = spacy.tokens.Doc(nlp.vocab).from_bytes(doc.to_bytes())
    np.testing.assert_array_equal(again.tensor, doc.tensor)
    if not nlp.vocab.vectors.size:
        np.testing.assert_allclose(again[1].vector, doc[1].vector)
        np.testing.assert_allclose(again.vector, doc.vector, rtol=1e-5)
