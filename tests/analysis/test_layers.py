"""Layers of a stream of Docs: those of each Doc by itself, in order, whatever the batches."""

import numpy as np
import pytest
from spacy.language import Language

from spacy_elmo.analysis.layers import layer_reader

TEXTS = ["A cat sat.", "", "No.", "The dog saw the other dog and ran.", "Two cats. One dog.", "Hm"]


@pytest.mark.parametrize("batch_words", [1, 7, 4096])
def test_same_as_one_by_one(nlp: Language, batch_words: int) -> None:
    docs = [nlp.make_doc(text) for text in TEXTS]
    read = list(layer_reader(nlp).read(docs, batch_words))
    assert [doc.text for doc, _ in read] == TEXTS
    for text, (_, layers) in zip(TEXTS, read, strict=True):
        np.testing.assert_allclose(layers, nlp(text)._.elmo.layers, atol=1e-5)


@pytest.mark.parametrize(("batch_words", "expected"), [(1, 1), (10, 2), (4096, 6)])
def test_batches_hold_so_many_words(nlp: Language, batch_words: int, expected: int) -> None:
    """A long Doc is a batch by itself, nothing is read ahead of it."""
    reader = layer_reader(nlp)
    sizes: list[int] = []
    predict = reader.predict
    object.__setattr__(reader, "predict", lambda docs: sizes.append(len(docs)) or predict(docs))
    docs = [nlp.make_doc(text) for text in TEXTS]
    assert len(list(reader.read(docs, batch_words))) == sum(sizes) == len(TEXTS)
    assert max(sizes) >= expected
