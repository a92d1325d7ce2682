"""The biLM inside a Thinc model: read late, copied or shared, stored exactly."""

import copy
import gc
import pickle
import shutil
import sys

import pytest
import spacy
import torch
from thinc.api import SGD, Adam

from spacy_elmo.bilm import loading
from spacy_elmo.bilm.errors import BiLMError
from spacy_elmo.layers import bilm_model
from spacy_elmo.layers.bilm_shim import BiLMShim
from spacy_elmo.spans import sentence_spans


def make_model(name, trainable=False):
    reading = bilm_model.Reading(sentence_spans(), 4096, False)
    return bilm_model.bilm_model(str(name), trainable=trainable, reading=reading)


def assert_same_weights(one, other):
    assert one.config == other.config
    torch.testing.assert_close(one.state_dict(), other.state_dict(), rtol=0, atol=0)


@pytest.fixture
def reads(monkeypatch):
    """The names that were read."""
    names = []
    load_bilm = loading.load_bilm

    def recorded(name):
        names.append(name)
        return load_bilm(name)

    monkeypatch.setattr(loading, "load_bilm", recorded)
    return names


def test_the_name_is_read_when_first_needed_and_once(bilm_dir, reads):
    model = make_model(bilm_dir)
    assert reads == []
    for text in ("One doc.", "Another one."):
        model.predict([spacy.blank("en").make_doc(text)])
    model.initialize()
    assert reads == [str(bilm_dir)]


def test_a_name_that_is_none_is_refused_when_it_is_needed():
    model = make_model("no_such_bilm")
    with pytest.raises(BiLMError, match="No biLM 'no_such_bilm': expected the path of one"):
        model.initialize()


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda shim: shim.copy()])
def test_copies_share_a_frozen_bilm(bilm_dir, duplicate):
    shim = BiLMShim(str(bilm_dir), trainable=False)
    bilm = shim.bilm
    assert duplicate(shim).bilm is bilm
    assert duplicate(shim).id != shim.id


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda shim: shim.copy()])
def test_copies_of_a_trainable_bilm_learn_for_themselves(bilm_dir, duplicate):
    shim = BiLMShim(str(bilm_dir), trainable=True)
    bilm = shim.bilm
    other = duplicate(shim)
    assert_same_weights(other.bilm, bilm)
    assert all(p.requires_grad for p in other.bilm.parameters())
    with torch.no_grad():
        other.bilm.token_encoder.embedding.weight.zero_()
    assert bilm.token_encoder.embedding.weight.any()


def test_copies_made_before_it_is_read_read_it_themselves(bilm_dir, reads):
    model = make_model(bilm_dir)
    bilm_model.load(model.copy())
    bilm_model.load(copy.deepcopy(model))
    bilm_model.load(model)
    assert len(reads) == 3


@pytest.mark.parametrize("trainable", [False, True])
def test_bytes_round_trip(bilm_dir, trainable):
    """Into a model whose name cannot be read."""
    model = make_model(bilm_dir, trainable)
    bilm_model.load(model)
    again = make_model("gone", trainable).from_bytes(model.to_bytes())
    assert_same_weights(bilm_model.get_shim(again).bilm, bilm_model.get_shim(model).bilm)
    assert (again.get_dim("nL"), again.get_dim("nO")) == (3, 16)
    assert {p.requires_grad for p in bilm_model.get_shim(again).bilm.parameters()} == {trainable}


def test_bytes_of_a_model_that_has_read_nothing_yet(bilm_dir):
    again = make_model("gone").from_bytes(make_model(bilm_dir).to_bytes())
    assert_same_weights(bilm_model.get_shim(again).bilm, loading.load_bilm(bilm_dir))


def test_disk_round_trip(bilm_dir, tmp_path):
    """The directory is a biLM of its own, which can be named."""
    original = tmp_path / "original"
    shutil.copytree(bilm_dir, original)
    shim = BiLMShim(str(original), trainable=False)
    shim.to_disk(tmp_path / "stored")
    shutil.rmtree(original)
    again = BiLMShim(str(original), trainable=False).from_disk(tmp_path / "stored")
    assert_same_weights(again.bilm, loading.load_bilm(bilm_dir))
    assert_same_weights(loading.load_bilm(tmp_path / "stored"), loading.load_bilm(bilm_dir))


def test_pickle_round_trip(bilm_dir):
    model = make_model(bilm_dir, trainable=True)
    bilm_model.load(model)
    again = pickle.loads(pickle.dumps(model))
    assert_same_weights(bilm_model.get_shim(again).bilm, bilm_model.get_shim(model).bilm)


def test_stored_weights_replace_those_that_were_read(bilm_dir):
    model, other = make_model(bilm_dir), make_model(bilm_dir)
    bilm_model.load(model)
    bilm_model.load(other)
    with torch.no_grad():
        bilm_model.get_shim(other).bilm.token_encoder.embedding.weight.zero_()
    model.from_bytes(other.to_bytes())
    assert not bilm_model.get_shim(model).bilm.token_encoder.embedding.weight.any()


def test_steps_leave_no_memory_behind(bilm_dir):
    model = make_model(bilm_dir, trainable=True)
    docs = [spacy.blank("en").make_doc("Ann met Bob")]
    optimizer = Adam(0.001)

    def step():
        layers, backprop = model(docs, is_train=True)
        backprop(layers)
        model.finish_update(optimizer)

    def blocks_after(steps):
        for _ in range(steps):
            step()
        gc.collect()
        return sys.getallocatedblocks()

    start = blocks_after(10)
    n_weights = len(list(bilm_model.get_shim(model).bilm.parameters()))
    # Less than one object for each weight and step.
    assert blocks_after(20) - start < 20 * n_weights / 4


def plain(key, weights, gradient):
    """Makes a new array, where Thinc's change theirs."""
    return weights - 0.1 * gradient, gradient


@pytest.mark.parametrize("make_optimizer", [lambda: SGD(0.1), lambda: Adam(0.01), lambda: plain])
def test_a_step_is_the_optimizers(bilm_dir, make_optimizer):
    """Against the same optimizer on arrays."""
    model = make_model(bilm_dir, trainable=True)
    bilm = bilm_model.get_shim(model).bilm
    by_hand, optimizer = make_optimizer(), make_optimizer()
    expected = {name: w.detach().numpy().copy() for name, w in bilm.named_parameters()}
    for _ in range(3):
        layers, backprop = model([spacy.blank("en").make_doc("Ann met Bob")], is_train=True)
        backprop([X * 0.001 for X in layers])
        for name, weight in bilm.named_parameters():
            gradient = weight.grad.numpy().copy()
            expected[name], _ = by_hand((0, name), expected[name], gradient)
        model.finish_update(optimizer)
        for name, weight in bilm.named_parameters():
            torch.testing.assert_close(weight.detach(), torch.tensor(expected[name]))
