"""ELMo concatenated at the input and the output of a task's own tok2vec."""

import numpy as np
import pytest
import spacy
from finite_differences import inner, numeric_gradient
from spacy.ml.models.tok2vec import MaxoutWindowEncoder, MultiHashEmbed
from thinc.api import Linear, Model, NumpyOps, Ops, chain, fix_random_seed, noop, with_array

from spacy_elmo.architectures import bilm_v1, elmo_listener_v1, elmo_tok2vec_v1, elmo_v1
from spacy_elmo.layers import bilm_model
from spacy_elmo.layers.delivery import Delivery
from spacy_elmo.layers.listener import ElmoListener
from spacy_elmo.layers.scalar_mix import ScalarMix

NLP = spacy.blank("en")
WIDTH, ELMO = 8, 16
TEXTS = ["The bank rose.", "", "It was the bank \n again"]
PLACES = [("input",), ("output",), ("input", "output")]


def make_docs():
    return [NLP.make_doc(text) for text in TEXTS]


def embed():
    return MultiHashEmbed(width=WIDTH, attrs=["NORM"], rows=[20], include_static_vectors=False)


def encode():
    return MaxoutWindowEncoder(width=WIDTH, window_size=1, maxout_pieces=2, depth=1)


def make_tok2vec(bilm_dir, places, trainable=False):
    """With a biLM of its own at each place, so that it stands alone."""
    fix_random_seed(0)
    elmos = {
        place: elmo_v1(bilm_v1(str(bilm_dir), trainable=trainable), ScalarMix(), dropout=0.0)
        for place in places
    }
    tok2vec = elmo_tok2vec_v1(embed(), encode(), **elmos)
    return tok2vec.initialize(X=make_docs())


@pytest.mark.parametrize(
    ("places", "width"), [(PLACES[0], WIDTH), (PLACES[1], WIDTH + ELMO), (PLACES[2], WIDTH + ELMO)]
)
def test_widths(bilm_dir, places, width):
    tok2vec = make_tok2vec(bilm_dir, places)
    assert tok2vec.get_dim("nO") == width
    docs = make_docs()
    assert [Y.shape for Y in tok2vec.predict(docs)] == [(len(doc), width) for doc in docs]


def test_the_output_is_the_encoders_beside_elmo(bilm_dir):
    tok2vec = make_tok2vec(bilm_dir, ["output"])
    docs = make_docs()
    own = chain(tok2vec.get_ref("embed"), tok2vec.get_ref("encode")).predict(docs)
    average = bilm_v1(str(bilm_dir)).predict(docs)
    for Y, E, X in zip(tok2vec.predict(docs), own, average, strict=True):
        np.testing.assert_allclose(Y, np.hstack([E, X.mean(axis=0)]), atol=1e-5)


def test_the_input_depends_on_elmo(bilm_dir):
    """The same words in another order: the window of this encoder is one token, the biLM's is not."""
    tok2vec = make_tok2vec(bilm_dir, ["input"])
    docs = [NLP.make_doc(f"{word} or this that these those the bank") for word in ("not", "yes")]
    own = chain(tok2vec.get_ref("embed"), tok2vec.get_ref("encode"))
    assert np.abs(np.subtract(*own.predict(docs)))[-1].max() == 0
    assert np.abs(np.subtract(*tok2vec.predict(docs)))[-1].max() > 1e-4


def test_neither_input_nor_output_is_refused():
    with pytest.raises(
        ValueError, match="has input = null and output = null, expected an ElmoListener"
    ):
        elmo_tok2vec_v1(embed(), encode())


def test_an_encoder_of_unknown_width_is_refused_at_the_input():
    with pytest.raises(ValueError, match="cannot tell the width that encode \\('noop'\\) takes"):
        elmo_tok2vec_v1(embed(), noop(), input=elmo_listener_v1())


def test_an_encoder_that_states_its_input_is_taken_at_its_word(bilm_dir):
    encode = with_array(Linear(5, WIDTH))
    tok2vec = elmo_tok2vec_v1(embed(), encode, input=elmo_v1(bilm_v1(str(bilm_dir))))
    tok2vec.initialize(X=make_docs())
    assert tok2vec.predict(make_docs())[0].shape[1] == 5


class DoubleOps(NumpyOps):
    """Thinc's own matrix product is in single precision only."""

    gemm = Ops.gemm


def in_double_precision(model):
    for node in model.walk():
        node.ops = DoubleOps()
        for name in node.param_names:
            node.set_param(name, node.get_param(name).astype("float64"))
        for shim in node.shims:
            shim.bilm.double()
    return model


@pytest.mark.parametrize("places", PLACES)
def test_gradients_equal_finite_differences(bilm_dir, places):
    """Of the embedding, the encoder, the mixes, and the biLM at each place."""
    tok2vec = in_double_precision(make_tok2vec(bilm_dir, places, trainable=True))
    docs = make_docs()
    rng = np.random.default_rng(0)
    outputs, backprop = tok2vec(docs, is_train=True)
    d_outputs = [rng.normal(size=Y.shape) for Y in outputs]
    backprop(d_outputs)
    checked = set()
    for node in tok2vec.walk():
        pairs = [(f"{node.name}.{n}", node.get_param(n), node.get_grad(n)) for n in node.grad_names]
        for shim in node.shims:
            pairs += [
                (name, p.detach().numpy(), p.grad.numpy())
                for name, p in shim.bilm.named_parameters()
                if name.endswith(("embedding.weight", "0.bias", "projection"))
            ]
        for name, array, gradient in pairs:
            at = [tuple(i) for i in rng.permutation(np.argwhere(gradient))[:1]]
            numeric = numeric_gradient(
                lambda: inner(tok2vec(docs, is_train=True)[0], d_outputs), array, 1e-5, at
            )
            for i in at:
                assert gradient[i] == pytest.approx(numeric[i], rel=1e-3, abs=1e-6), name
                checked.add(name)
    assert {"scalar_mix.scalars", "scalar_mix.gamma", "hashembed.E", "maxout.W"} <= checked
    assert {"token_encoder.embedding.weight", "backward_lm.layers.1.projection"} <= checked


def test_listeners_send_the_gradient_that_a_bilm_of_its_own_gets(bilm_dir):
    """Both at once: what comes back upstream is the sum of both places."""
    docs = make_docs()
    unshared = make_tok2vec(bilm_dir, ["input", "output"], trainable=True)
    elmo = bilm_v1(str(bilm_dir), trainable=True)
    listeners = [ElmoListener("*", ScalarMix(), 0.0) for _ in range(2)]
    shared = elmo_tok2vec_v1(embed(), encode(), *listeners)
    upstream = Upstream(elmo)
    for listener in listeners:
        listener.connect(upstream)
    shared.initialize(X=docs)
    copy_parameters(unshared, shared)
    layers, backprop_bilm = elmo(docs, is_train=True)
    upstream.delivery.add(docs, layers, backprop_bilm)
    results = []
    for tok2vec in (unshared, shared):
        rng = np.random.default_rng(0)
        outputs, backprop = tok2vec(docs, is_train=True)
        backprop([rng.normal(size=Y.shape).astype("float32") for Y in outputs])
        results.append(outputs)
    upstream.delivery.finish()
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
    apart = [dict(s.bilm.named_parameters()) for node in unshared.walk() for s in node.shims]
    assert len(apart) == 2
    for name, parameter in bilm_model.get_shim(elmo).bilm.named_parameters():
        expected = sum(parameters[name].grad for parameters in apart)
        np.testing.assert_allclose(parameter.grad, expected, atol=1e-4, rtol=1e-3)


class Upstream:
    name = "elmo"

    def __init__(self, model):
        self.model = model
        self.delivery = Delivery(model.ops)

    def sizes(self):
        bilm_model.load(self.model)
        return self.model.get_dim("nL"), self.model.get_dim("nO")

    def deliver(self, docs):
        missing = self.delivery.missing(docs)
        self.delivery.add(missing, self.model.predict(missing), None)
        return self.delivery


def copy_parameters(source: Model, target: Model):
    """Between models that are the same but for where their layers come from."""

    def owners(model):
        return [node for node in model.walk(order="dfs_pre") if node.param_names]

    for one, other in zip(owners(source), owners(target), strict=True):
        assert one.name == other.name
        for name in one.param_names:
            other.set_param(name, one.get_param(name).copy())
