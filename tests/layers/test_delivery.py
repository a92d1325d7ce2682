"""One batch's layers on their way to the listeners, and the gradients on their way back."""

import copy
import gc
import pickle

import numpy as np
import pytest
from other_device import Array, OtherOps
from spacy.tokens import Doc
from spacy.vocab import Vocab
from thinc.api import NumpyOps

from spacy_elmo.layers.delivery import Delivery

VOCAB = Vocab()
WORDS = [["one", "doc"], ["another", "longer", "doc"], [], ["one", "doc"]]


class Batch:
    """Docs of which the first and the last have the same words, distinct layers, and what came back."""

    def __init__(self, trainable=True, ops=None):
        self.docs = [Doc(VOCAB, words=words) for words in WORDS]
        self.ops = ops or NumpyOps()
        self.layers = [self.filled(doc, row + 1.0) for row, doc in enumerate(self.docs)]
        self.received = []
        backprop = self.received.append if trainable else None
        self.delivery = Delivery(self.ops)
        self.delivery.add(self.docs, self.layers, backprop)

    def filled(self, doc, value):
        return self.ops.asarray(np.full((2, len(doc), 3), value, dtype="float32"))


def test_docs_in_any_order_get_their_own_layers():
    batch = Batch()
    for rows in ([0, 1, 2, 3], [3, 0], [1], [], [2, 3, 1]):
        found = batch.delivery.get([batch.docs[row] for row in rows])
        assert all(X is batch.layers[row] for X, row in zip(found, rows, strict=True))


def test_a_doc_of_the_same_words_is_not_of_the_batch():
    batch = Batch()
    other = Doc(VOCAB, words=WORDS[0])
    assert batch.delivery.missing([batch.docs[0], other, other]) == [other]


def test_two_batches_of_the_same_words_are_told_apart():
    one, other = Batch(), Batch()
    assert one.delivery.missing(other.docs) == other.docs
    assert one.delivery.missing(one.docs) == []


def test_gradients_are_summed_over_listeners_and_follow_their_docs():
    batch = Batch()
    docs = batch.docs
    batch.delivery.add_gradients(docs, [batch.filled(doc, 1.0) for doc in docs])
    batch.delivery.add_gradients(
        [docs[3], docs[1]], [batch.filled(docs[3], 10.0), batch.filled(docs[1], 20.0)]
    )
    loss = batch.delivery.finish()
    (total,) = batch.received
    assert [set(dX.ravel().tolist()) for dX in total] == [{1.0}, {21.0}, set(), {11.0}]
    assert loss == pytest.approx(sum(float((dX**2).sum()) for dX in total))


def test_what_a_listener_sent_is_not_changed():
    batch = Batch()
    sent = [batch.filled(doc, 1.0) for doc in batch.docs]
    batch.delivery.add_gradients(batch.docs, sent)
    batch.delivery.add_gradients(batch.docs, sent)
    assert set(sent[0].ravel().tolist()) == {1.0}


def test_docs_without_gradients_get_zeros():
    batch = Batch()
    batch.delivery.add_gradients([batch.docs[1]], [batch.filled(batch.docs[1], 1.0)])
    batch.delivery.finish()
    (total,) = batch.received
    assert [dX.shape for dX in total] == [X.shape for X in batch.layers]
    assert not total[0].any() and total[1].all()


def test_gradients_are_passed_on_once_and_later_ones_refused():
    batch = Batch()
    batch.delivery.add_gradients([batch.docs[0]], [batch.filled(batch.docs[0], 1.0)])
    assert batch.delivery.finish() > 0
    with pytest.raises(
        RuntimeError, match="after its `elmo` was updated, expected it before: call"
    ):
        batch.delivery.add_gradients([batch.docs[0]], [batch.filled(batch.docs[0], 1.0)])
    assert batch.delivery.finish() == 0.0
    assert len(batch.received) == 1


def test_nothing_is_passed_on_if_nothing_came():
    batch = Batch()
    assert batch.delivery.waits
    assert batch.delivery.finish() == 0.0
    assert batch.received == [] and not batch.delivery.waits


def test_it_waits_until_a_gradient_comes():
    batch = Batch()
    batch.delivery.add_gradients([batch.docs[0]], [batch.filled(batch.docs[0], 1.0)])
    assert not batch.delivery.waits


def test_of_a_frozen_bilm_nothing_is_summed():
    batch = Batch(trainable=False)
    batch.delivery.add_gradients(batch.docs, batch.layers)
    assert batch.delivery.finish() == 0.0
    assert not batch.delivery.waits


def test_layers_are_still_there_when_finished():
    """`nlp.update` finishes a frozen biLM's delivery before the listeners ask for it."""
    batch = Batch(trainable=False)
    batch.delivery.finish()
    assert batch.delivery.get(batch.docs) == batch.layers


@pytest.mark.parametrize("way", [copy.deepcopy, lambda kept: pickle.loads(pickle.dumps(kept))])
def test_a_copy_is_without_the_batch(way):
    batch = Batch()
    batch.delivery.add_gradients(batch.docs, batch.layers)
    other = way(batch.delivery)
    assert other.missing(batch.docs) == batch.docs and not other.waits
    assert other.finish() == 0.0 and batch.received == []
    assert batch.delivery.finish() > 0


def test_it_computes_where_its_ops_are():
    batch = Batch(ops=OtherOps())
    for _ in range(2):
        batch.delivery.add_gradients([batch.docs[0]], [batch.filled(batch.docs[0], 1.0)])
    assert batch.delivery.finish() == 4.0 * 2 * 2 * 3
    assert all(type(dX) is Array for dX in batch.received[0])


def test_docs_that_come_later_have_a_backprop_of_their_own():
    batch, received = Batch(), []
    copied = batch.docs[1].copy()
    batch.delivery.add([copied], [batch.filled(copied, 5.0)], received.append)
    docs = [copied, batch.docs[1]]
    batch.delivery.add_gradients(docs, [batch.filled(copied, 2.0), batch.filled(copied, 3.0)])
    assert batch.delivery.finish() == pytest.approx((4 + 9) * 2 * 3 * 3)
    assert [set(dX.ravel().tolist()) for dX in received[0]] == [{2.0}]
    assert set(batch.received[0][1].ravel().tolist()) == {3.0}


def test_annotating_does_not_replace_what_learns():
    batch = Batch()
    batch.delivery.add(batch.docs, [-X for X in batch.layers], None)
    assert batch.delivery.get(batch.docs)[0] is batch.layers[0]


def test_it_is_open_while_its_docs_live():
    batch = Batch()
    assert batch.delivery.is_open
    batch.delivery.add_gradients([batch.docs[0]], [batch.filled(batch.docs[0], 1.0)])
    batch.docs.clear()
    gc.collect()
    assert not batch.delivery.is_open
    assert batch.delivery.finish() > 0, "the gradients outlive them"
    assert not Batch(trainable=False).delivery.is_open


def test_a_doc_whose_tokens_were_merged_is_missing():
    batch = Batch()
    doc = batch.docs[1]
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[:2])
    assert batch.delivery.missing(batch.docs) == [doc]
