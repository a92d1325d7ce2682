"""A listener: where it gets layers from, and what it does with them."""

import copy
import gc
import pickle

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc
from thinc.api import NumpyOps

from spacy_elmo.layers.delivery import Delivery
from spacy_elmo.layers.listener import ElmoListener, Link
from spacy_elmo.layers.scalar_mix import ScalarMix
from spacy_elmo.output import get_layers, set_layers

VOCAB = spacy.blank("en").vocab
N_LAYERS, WIDTH = 3, 4


class Component:
    """As much of the `elmo` component as a listener needs."""

    def __init__(self, name="elmo", value=1.0, n_layers=N_LAYERS, width=WIDTH):
        self.name, self.value, self.n_layers, self.width = name, value, n_layers, width
        self.read = []
        self.delivery = Delivery(NumpyOps())

    def sizes(self):
        return self.n_layers, self.width

    def layers(self, doc):
        return np.full((self.n_layers, len(doc), self.width), self.value, dtype="float32")

    def annotate(self, docs):
        for doc in docs:
            set_layers(doc, self.name, self.layers(doc))

    def deliver(self, docs):
        missing = self.delivery.missing(docs)
        self.read.extend(missing)
        self.delivery.add(missing, [self.layers(doc) for doc in missing], None)
        return self.delivery

    def train(self, docs, factor, backprop):
        self.delivery.add(docs, [factor * self.layers(doc) for doc in docs], backprop)


def make_docs():
    return [Doc(VOCAB, words=words) for words in (["one", "doc"], [], ["another"])]


def make_listener(component=None, upstream="*", dropout=0.0, initialize=True):
    listener = ElmoListener(upstream, ScalarMix(), dropout)
    if component is not None:
        listener.connect(component)
        if initialize:
            listener.initialize()
    return listener


def values(outputs):
    return [set(Y.ravel().tolist()) for Y in outputs]


def test_initialization_takes_the_sizes_of_the_upstream_bilm():
    listener = make_listener(Component(n_layers=5, width=6))
    assert listener.get_dim("nO") == 6
    assert listener.get_ref("mix").get_param("scalars").shape == (5,)


def test_layers_that_the_docs_carry_are_not_made_again():
    component, docs = Component(), make_docs()
    component.annotate(docs)
    outputs = make_listener(component).predict(docs)
    assert [Y.shape for Y in outputs] == [(2, WIDTH), (0, WIDTH), (1, WIDTH)]
    assert component.read == []


def test_layers_of_docs_without_are_made_on_demand_and_not_stored():
    component, docs = Component(), make_docs()
    component.annotate(docs[:1])
    assert values(make_listener(component).predict(docs)) == [{1.0}, set(), {1.0}]
    assert component.read == docs[1:]
    assert get_layers(docs[2]) is None


def test_it_reads_the_layers_of_its_own_upstream():
    one, other, docs = Component("one", 1.0), Component("other", 2.0), make_docs()
    for component in (one, other):
        component.annotate(docs)
    assert values(make_listener(one).predict(docs))[0] == {1.0}
    assert values(make_listener(other).predict(docs))[0] == {2.0}


def test_without_an_upstream_the_layers_that_docs_carry_still_serve():
    component, docs = Component(), make_docs()
    component.annotate(docs)
    trained = make_listener(component)
    for upstream in ("*", "elmo"):
        listener = make_listener(upstream=upstream).from_bytes(trained.to_bytes())
        assert values(listener.predict(docs))[0] == {1.0}


@pytest.mark.parametrize(
    ("upstream", "said"),
    [("*", "found no `elmo` component before"), ("emlo", "named 'emlo' before")],
)
def test_without_upstream_and_layers_it_says_what_to_do(upstream, said):
    listener = make_listener(upstream=upstream)
    for action in (lambda: listener.predict(make_docs()), listener.initialize):
        with pytest.raises(ValueError, match=said) as caught:
            action()
        assert f"upstream = '{upstream}'" in str(caught.value)
        assert 'nlp.add_pipe("elmo", first=True)' in str(caught.value)


def test_in_training_it_uses_the_delivery_and_answers_with_gradients():
    component, docs, received = Component(), make_docs(), []
    component.annotate(docs)
    listener = make_listener(component)
    component.train(docs, 2, received.append)
    outputs, backprop = listener([docs[2], docs[0]], is_train=True)
    assert values(outputs) == [{2.0}, {2.0}]
    assert backprop([np.ones_like(Y) for Y in outputs]) == []
    component.delivery.finish()
    np.testing.assert_allclose(received[0][0], 1 / N_LAYERS, rtol=1e-6)
    assert component.read == []


def test_in_training_it_does_not_read_what_docs_carry():
    """The biLM may have been trained since."""
    component, docs = Component(value=1.0), make_docs()
    component.annotate(docs)
    component.value = 2.0
    outputs, _ = make_listener(component)(docs, is_train=True)
    assert values(outputs) == [{2.0}, set(), {2.0}]


def test_its_own_dropout_is_at_work_in_training_only():
    component = Component()
    listener = make_listener(component, dropout=0.5)
    docs = [Doc(VOCAB, words=["word"] * 200)]
    assert values(listener.predict(docs)) == [{1.0}]
    assert values(listener(docs, is_train=True)[0]) == [{0.0, 2.0}]


def test_layers_of_another_bilm_are_refused():
    listener = make_listener(Component())
    other = Component(n_layers=4, width=6)
    listener.connect(other)
    with pytest.raises(ValueError, match="got 4 layers of width 6, expected 3 of width 4"):
        listener.predict(make_docs())


def test_a_component_that_is_gone_is_no_upstream():
    component = Component()
    listener = make_listener(component)
    assert listener.link.upstream is component
    del component
    gc.collect()
    assert listener.link.upstream is None


def test_a_copy_shares_the_upstream_unless_that_is_copied_with_it():
    component = Component()
    listener = make_listener(component)
    assert copy.deepcopy(listener).link.upstream is component
    component_2, listener_2 = copy.deepcopy((component, listener))
    assert listener_2.link.upstream is component_2 is not component


def test_a_pickle_takes_the_upstream_along():
    component = Component()
    listener = make_listener(component)
    component_2, listener_2 = pickle.loads(pickle.dumps((component, listener)))
    assert listener_2.link.upstream is component_2
    assert pickle.loads(pickle.dumps(Link())).upstream is None


def test_bytes_round_trip():
    component, docs = Component(), make_docs()
    listener = make_listener(component)
    listener.get_ref("mix").set_param("gamma", listener.ops.asarray1f([3.0]))
    again = make_listener(component, initialize=False).from_bytes(listener.to_bytes())
    assert values(again.predict(docs))[0] == {3.0}


def test_docs_that_changed_are_refused():
    component = Component()
    doc = Doc(VOCAB, words=["New", "York", "grows"])
    component.annotate([doc])
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[:2])
    with pytest.raises(ValueError, match="layers of this Doc are those of 3 tokens, but it has 2"):
        make_listener(component).predict([doc])
    with pytest.raises(ValueError, match="let `elmo` run after that component"):
        get_layers(doc)


@pytest.mark.parametrize("backprop", [lambda d_layers: None, None])
def test_what_was_made_last_goes_before_what_docs_carry(backprop):
    """The delivery is of the present weights, or the component drops it."""
    component, docs = Component(value=1.0), make_docs()
    listener = make_listener(component)
    component.annotate(docs)
    component.train(docs, 3, backprop)
    for is_train in (True, False):
        assert values(listener(docs, is_train=is_train)[0]) == [{3.0}, set(), {3.0}]
    component.delivery = Delivery(NumpyOps())
    assert values(listener.predict(docs)) == [{1.0}, set(), {1.0}]
