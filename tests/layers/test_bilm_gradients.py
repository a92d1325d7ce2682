"""Gradients exactly where asked: into every parameter of a trainable biLM, nowhere of a frozen one."""

import numpy as np
import pytest
import spacy
import torch
from finite_differences import inner, numeric_gradient

from spacy_elmo.layers.bilm_model import Reading, bilm_model, get_shim
from spacy_elmo.spans import sentence_spans, strided_spans

NLP = spacy.blank("en")
TEXTS = ["The bank rose. It was it.", "", "  ", "Windows that \n overlap here"]
READINGS = {
    "sentences": Reading(sentence_spans(), 4096, False),
    "small batches": Reading(sentence_spans(), 8, False),
    "overlapping": Reading(strided_spans(4, 2), 4096, False),
    "carried": Reading(sentence_spans(), 4096, True),
}


def make_docs():
    return [NLP.make_doc(text) for text in TEXTS]


def make_model(bilm_dir, trainable, reading="sentences"):
    model = bilm_model(str(bilm_dir), trainable=trainable, reading=READINGS[reading])
    model.initialize()
    return model


def random_like(layers):
    rng = np.random.default_rng(0)
    return [rng.normal(size=X.shape).astype(X.dtype) for X in layers]


class SavedTensors(torch.autograd.graph.saved_tensors_hooks):
    """Counts what autograd keeps for a backward pass."""

    def __init__(self):
        self.count = 0
        super().__init__(self.pack, lambda tensor: tensor)

    def __enter__(self):
        super().__enter__()
        return self

    def pack(self, tensor):
        self.count += 1
        return tensor


@pytest.mark.parametrize(("trainable", "is_train"), [(False, True), (False, False), (True, False)])
def test_autograd_records_nothing_unless_a_trainable_bilm_trains(bilm_dir, trainable, is_train):
    model = make_model(bilm_dir, trainable)
    with SavedTensors() as saved:
        layers, backprop = model(make_docs(), is_train=is_train)
    assert saved.count == 0
    backprop(random_like(layers))
    assert all(p.grad is None for p in get_shim(model).bilm.parameters())


def test_autograd_records_while_a_trainable_bilm_trains(bilm_dir):
    with SavedTensors() as saved:
        make_model(bilm_dir, trainable=True)(make_docs(), is_train=True)
    assert saved.count > 0


@pytest.mark.parametrize("trainable", [False, True])
def test_parameters_require_gradients_if_trainable(bilm_dir, trainable):
    bilm = get_shim(make_model(bilm_dir, trainable)).bilm
    assert {p.requires_grad for p in bilm.parameters()} == {trainable}


@pytest.mark.parametrize("trainable", [False, True])
def test_the_optimizer_knows_of_a_trainable_bilm_only(bilm_dir, trainable):
    model = make_model(bilm_dir, trainable)
    layers, backprop = model(make_docs(), is_train=True)
    backprop(random_like(layers))
    seen = []

    def optimizer(key, weights, gradient):
        seen.append(key[1])
        return weights - 0.1 * gradient, gradient

    before = {name: p.clone() for name, p in get_shim(model).bilm.named_parameters()}
    model.finish_update(optimizer)
    moved = [n for n, p in get_shim(model).bilm.named_parameters() if not torch.equal(p, before[n])]
    assert seen == moved == (list(before) if trainable else [])


def test_a_step_without_gradients_changes_nothing(bilm_dir):
    """Not even by the optimizer's momentum."""
    model = make_model(bilm_dir, trainable=True)
    layers, backprop = model(make_docs(), is_train=True)
    backprop(random_like(layers))
    optimizer = spacy.util.create_default_optimizer()
    model.finish_update(optimizer)
    before = {name: p.clone() for name, p in get_shim(model).bilm.named_parameters()}
    model.finish_update(optimizer)
    assert all(torch.equal(p, before[n]) for n, p in get_shim(model).bilm.named_parameters())


@pytest.mark.parametrize("reading", list(READINGS))
def test_gradients_reach_every_parameter_and_equal_finite_differences(bilm_dir, reading):
    model = make_model(bilm_dir, trainable=True, reading=reading)
    bilm = get_shim(model).bilm.double()
    docs = make_docs()
    layers, backprop = model(docs, is_train=True)
    d_layers = random_like(layers)
    backprop(d_layers)
    rng = np.random.default_rng(1)
    for name, parameter in bilm.named_parameters():
        gradient = parameter.grad.numpy()
        learns = np.argwhere(gradient)
        assert len(learns), f"no gradient reached {name}"
        at = [tuple(i) for i in rng.permutation(learns)[:1]]
        numeric = numeric_gradient(
            lambda: inner(model(docs, is_train=True)[0], d_layers),
            parameter.detach().numpy(),
            1e-5,
            at,
        )
        found = [gradient[i] for i in at]
        expected = [numeric[i] for i in at]
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6, err_msg=name)


def test_gradients_accumulate_over_batches(bilm_dir):
    def gradients(batches):
        model = make_model(bilm_dir, trainable=True)
        for docs in batches:
            layers, backprop = model(docs, is_train=True)
            backprop(random_like(layers))
        return torch.cat([p.grad.flatten() for p in get_shim(model).bilm.parameters()])

    one, other = make_docs()[:1], make_docs()[3:]
    torch.testing.assert_close(gradients([one, other]), gradients([one]) + gradients([other]))


def test_docs_without_words_teach_nothing(bilm_dir):
    model = make_model(bilm_dir, trainable=True)
    for texts in ([""], ["  "], ["", "\n"], []):
        layers, backprop = model([NLP.make_doc(text) for text in texts], is_train=True)
        assert backprop(random_like(layers)) == []
    assert all(p.grad is None for p in get_shim(model).bilm.parameters())
