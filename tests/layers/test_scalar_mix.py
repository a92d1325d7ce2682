"""The scalar mix against a few plain lines, and its backprop against finite differences."""

import copy

import numpy as np
import pytest
from finite_differences import inner, numeric_gradient
from other_device import Array, OtherOps
from thinc.api import SGD, NumpyOps, use_ops

from spacy_elmo.layers.scalar_mix import ScalarMix, layer_weights

N_LAYERS, WIDTH = 3, 5
SCALARS = np.array([0.3, -1.2, 0.8])
GAMMA = 1.7
FORCED = {
    "uniform": [1 / 3, 1 / 3, 1 / 3],
    "token": [1, 0, 0],
    "layer0": [1, 0, 0],
    "layer1": [0, 1, 0],
    "layer2": [0, 0, 1],
    "top": [0, 0, 1],
}


def random_layers(lengths=(4, 0, 2), seed=0, dtype="float64"):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(N_LAYERS, length, WIDTH)).astype(dtype) for length in lengths]


def random_outputs(seed=1, dtype="float64"):
    return [X[0] for X in random_layers(seed=seed, dtype=dtype)]


def make_mix(dtype="float64", ops=None, **settings):
    """A mix whose parameters are in double precision, so that finite differences are sharp."""
    mix = ScalarMix(**settings)
    mix.ops = ops or mix.ops
    mix.initialize(X=random_layers())
    mix.set_param("scalars", mix.ops.asarray1f(SCALARS, dtype=dtype))
    mix.set_param("gamma", mix.ops.asarray1f([GAMMA], dtype=dtype))
    return mix


def plain_mix(weights, gamma, X, normalize=False):
    """One token at a time, as the paper writes it."""
    result = np.zeros(X.shape[1:])
    for token in range(X.shape[1]):
        for layer in range(X.shape[0]):
            vector = X[layer, token]
            if normalize:
                vector = (vector - vector.mean()) / np.sqrt(vector.var())
            result[token] += gamma * weights[layer] * vector
    return result


def softmax(scalars):
    return np.exp(scalars) / np.exp(scalars).sum()


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("weights", ["learned", *FORCED])
def test_forward_is_the_plain_sum(weights, normalize):
    mix = make_mix(weights=weights, normalize_layers=normalize)
    layers = random_layers()
    expected_weights = FORCED.get(weights, softmax(SCALARS))
    np.testing.assert_allclose(layer_weights(mix), expected_weights, rtol=1e-12)
    for X, Y in zip(layers, mix.predict(layers), strict=True):
        np.testing.assert_allclose(Y, plain_mix(expected_weights, GAMMA, X, normalize), atol=1e-11)


def test_it_starts_as_the_average():
    mix = ScalarMix()
    layers = random_layers(dtype="float32")
    mix.initialize(X=layers)
    np.testing.assert_allclose(mix.predict(layers)[0], layers[0].mean(axis=0), atol=1e-6)
    assert mix.predict(layers)[0].dtype == np.float32


def test_large_scalars_do_not_overflow():
    mix = make_mix()
    mix.set_param("scalars", np.array([1000.0, 999.0, -1000.0]))
    np.testing.assert_allclose(layer_weights(mix), softmax(np.array([1.0, 0.0, -2000.0])))


def test_normalized_zero_rows_stay_zero():
    mix = make_mix(normalize_layers=True)
    Y, backprop = mix([np.zeros((N_LAYERS, 2, WIDTH))], is_train=True)
    assert not Y[0].any()
    assert np.isfinite(backprop([np.ones((2, WIDTH))])[0]).all()


@pytest.mark.parametrize("l2", [0.0, 0.3])
@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("weights", ["learned", "uniform", "layer1"])
def test_backprop_equals_finite_differences(weights, normalize, l2):
    mix = make_mix(weights=weights, l2=l2, normalize_layers=normalize)
    layers, d_outputs = random_layers(), random_outputs()

    def loss():
        penalty = l2 * (mix.get_param("scalars") ** 2).sum() if weights == "learned" else 0.0
        return inner(mix.predict(layers), d_outputs) + penalty

    _, backprop = mix(layers, is_train=True)
    d_layers = backprop(d_outputs)
    for X, dX in zip(layers, d_layers, strict=True):
        np.testing.assert_allclose(dX, numeric_gradient(loss, X), atol=1e-8)
    gamma, scalars = mix.get_param("gamma"), mix.get_param("scalars")
    np.testing.assert_allclose(mix.get_grad("gamma"), numeric_gradient(loss, gamma), atol=1e-8)
    if weights == "learned":
        expected = numeric_gradient(loss, scalars)
        np.testing.assert_allclose(mix.get_grad("scalars"), expected, atol=1e-8)
    else:
        assert not mix.has_grad("scalars")


def test_gradients_accumulate_over_batches():
    def gradients(batches):
        mix = make_mix()
        for seed in batches:
            _, backprop = mix(random_layers(seed=seed), is_train=True)
            backprop(random_outputs(seed=seed + 10))
        return np.concatenate([mix.get_grad("scalars"), mix.get_grad("gamma")])

    np.testing.assert_allclose(gradients([1, 2]), gradients([1]) + gradients([2]), rtol=1e-12)


def test_backprop_belongs_to_its_own_forward():
    mix = make_mix()
    layers, d_outputs = random_layers(), random_outputs()
    _, first = mix(layers, is_train=True)
    mix(random_layers(seed=9), is_train=True)
    late = first(d_outputs)
    _, again = mix(layers, is_train=True)
    np.testing.assert_array_equal(late[0], again(d_outputs)[0])


def test_l2_pulls_to_the_average():
    mix = make_mix(dtype="float32", l2=0.1)
    before = np.ptp(layer_weights(mix))
    optimizer = SGD(0.5, L2=0.0)
    for _ in range(20):
        _, backprop = mix(random_layers(), is_train=True)
        backprop([np.zeros_like(dY) for dY in random_outputs()])
        mix.finish_update(optimizer)
    assert np.ptp(layer_weights(mix)) < before / 3
    assert mix.get_param("gamma") == np.float32(GAMMA)


def test_no_docs_and_empty_docs():
    mix = make_mix()
    outputs, backprop = mix([], is_train=True)
    assert outputs == [] and backprop([]) == []
    outputs, backprop = mix(random_layers(lengths=(0,)), is_train=True)
    assert outputs[0].shape == (0, WIDTH) and backprop(outputs)[0].shape == (N_LAYERS, 0, WIDTH)


def test_bytes_round_trip():
    mix = make_mix(dtype="float32", weights="layer1", l2=0.25, normalize_layers=True)
    again = ScalarMix().from_bytes(mix.to_bytes())
    layers = random_layers(dtype="float32")
    for name in ("scalars", "gamma"):
        np.testing.assert_array_equal(again.get_param(name), mix.get_param(name))
    assert again.attrs == mix.attrs
    assert (again.get_dim("nL"), again.get_dim("nO")) == (N_LAYERS, WIDTH)
    np.testing.assert_array_equal(again.predict(layers)[0], mix.predict(layers)[0])


def test_a_copy_learns_for_itself():
    mix = make_mix()
    for other in (mix.copy(), copy.deepcopy(mix)):
        other.get_param("scalars")[:] = 0
        np.testing.assert_array_equal(mix.get_param("scalars"), SCALARS)


@pytest.mark.parametrize("name", ["layr1", "layer", "layer-1", "layer1.5", "Top", "", "1"])
def test_a_name_that_is_none_is_refused(name):
    with pytest.raises(ValueError, match=rf"weights = '{name}', expected 'learned', 'uniform'"):
        ScalarMix(weights=name)


def test_a_layer_that_the_bilm_lacks_is_refused():
    mix = ScalarMix(weights="layer7")
    with pytest.raises(
        ValueError, match="'layer7', but this biLM has the layers token, layer1, lay"
    ):
        mix.initialize(X=random_layers())


def test_a_negative_l2_is_refused():
    with pytest.raises(ValueError, match=r"ScalarMix has l2 = -0\.1, expected 0 .* or more"):
        ScalarMix(l2=-0.1)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("weights", ["learned", "uniform", "top"])
def test_it_computes_where_its_ops_are(weights, normalize):
    """On arrays of another device, that numpy cannot read, all is as on numpy's."""
    results = []
    for ops in (NumpyOps(), OtherOps()):
        mix = make_mix(ops=ops, weights=weights, l2=0.1, normalize_layers=normalize)
        outputs, backprop = mix([ops.asarray(X) for X in random_layers()], is_train=True)
        d_layers = backprop([ops.asarray(dY) for dY in random_outputs()])
        gradients = [mix.get_grad(name) for name in mix.grad_names]
        results.append([*outputs, *d_layers, *gradients])
    expected, found = results
    assert len(found) == len(expected) and all(type(X) is Array for X in found)
    for X, Y in zip(expected, found, strict=True):
        np.testing.assert_allclose(Y.held, X, rtol=1e-12)


def test_on_cupy():
    cupy = pytest.importorskip("cupy", reason="cupy is not installed")
    if not cupy.cuda.is_available():
        pytest.skip("no GPU")
    results = []
    for name, read in (("numpy", np.asarray), ("cupy", cupy.asnumpy)):
        with use_ops(name):
            mix = make_mix(normalize_layers=True, l2=0.1)
            outputs, backprop = mix([mix.ops.asarray(X) for X in random_layers()], is_train=True)
            d_layers = backprop([mix.ops.asarray(dY) for dY in random_outputs()])
        results.append([read(X) for X in [*outputs, *d_layers, mix.get_grad("scalars")]])
    for X, Y in zip(*results, strict=True):
        np.testing.assert_allclose(X, Y, rtol=1e-10)
