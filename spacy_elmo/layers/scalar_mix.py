"""The scalar mix: one vector a token out of the biLM's layers (Peters et al. 2018, equation 1)."""

from collections.abc import Callable
from functools import partial
from typing import cast

from thinc.api import Model
from thinc.types import Floats1d, Floats2d, Floats3d

InT = list[Floats3d]
OutT = list[Floats2d]
Prepared = tuple[Floats3d, Callable[[Floats3d], Floats3d]]
# Keeps the zero rows of whitespace finite, far below the variance of any real vector.
EPSILON = 1e-12


def ScalarMix(
    weights: str = "learned", l2: float = 0.0, normalize_layers: bool = False
) -> Model[InT, OutT]:
    """gamma * sum_k s_k * h_k, s = softmax(scalars): of the layers h_k, (layers, tokens, width) a Doc,
    one vector a token, (tokens, width). `scalars` start at zero (the average) and `gamma` at one.

    weights (str): "learned"; "uniform": the average, held; or one layer's name, held: "token" (layer
        0), "layer1", "layer2", ... or "top". Gamma is learned in every case.
    l2 (float): lambda of lambda * ||scalars||^2, which draws them to the average.
    normalize_layers (bool): Normalise each token's vector in each layer to mean 0 and variance 1
        before the mix. The reference normalises over the batch; here a vector depends on its Doc only.
    """
    if l2 < 0:
        raise ValueError(f"ScalarMix has l2 = {l2}, expected 0 (no pull to the average) or more.")
    _check_name(weights)
    return Model(
        "scalar_mix",
        forward,
        init=init,
        params={"scalars": None, "gamma": None},
        dims={"nL": None, "nO": None},
        attrs={"weights": weights, "l2": float(l2), "normalize_layers": normalize_layers},
    )


def init(model: Model[InT, OutT], X: InT | None = None, Y: OutT | None = None) -> None:
    """Take the sizes from X, or from dimensions set before."""
    if X is not None:
        n_layers, _, width = X[0].shape
        model.set_dim("nL", n_layers)
        model.set_dim("nO", width)
    n_layers = model.get_dim("nL")
    _check_known(model.attrs["weights"], n_layers)
    model.set_param("scalars", model.ops.alloc1f(n_layers))
    model.set_param("gamma", model.ops.alloc1f(1) + 1.0)


def layer_weights(model: Model[InT, OutT]) -> Floats1d:
    """The weight of each layer, summing to one. *Shape:* (layers,)."""
    scalars = cast(Floats1d, model.get_param("scalars"))
    weights = model.attrs["weights"]
    if weights == "learned":
        exp = model.ops.xp.exp(scalars - scalars.max())
        return cast(Floats1d, exp / exp.sum())
    if weights == "uniform":
        return cast(Floats1d, model.ops.xp.full_like(scalars, 1.0 / len(scalars)))
    one_hot = model.ops.xp.zeros_like(scalars)
    one_hot[_layer_index(weights, len(scalars))] = 1.0
    return cast(Floats1d, one_hot)


def forward(
    model: Model[InT, OutT], layers: InT, is_train: bool
) -> tuple[OutT, Callable[[OutT], InT]]:
    xp = model.ops.xp
    weights = layer_weights(model)
    gamma = model.get_param("gamma")[0]
    prepare = _normalize if model.attrs["normalize_layers"] else _leave
    read, callbacks = _unzip([prepare(model, X) for X in layers])
    sums = [xp.tensordot(weights, X, axes=1) for X in read]

    def backprop(d_outputs: OutT) -> InT:
        d_gamma = sum(xp.vdot(dY, total) for dY, total in zip(d_outputs, sums, strict=True))
        model.inc_grad("gamma", model.ops.alloc1f(1) + d_gamma)
        if model.attrs["weights"] == "learned":
            d_weights = xp.zeros_like(weights)
            for X, dY in zip(read, d_outputs, strict=True):
                d_weights += gamma * xp.tensordot(X, dY, axes=2)
            d_scalars = weights * (d_weights - xp.vdot(weights, d_weights))
            d_scalars += 2 * model.attrs["l2"] * model.get_param("scalars")
            model.inc_grad("scalars", d_scalars)
        scale = xp.reshape(gamma * weights, (-1, 1, 1))
        return [back(scale * dY) for back, dY in zip(callbacks, d_outputs, strict=True)]

    return [gamma * total for total in sums], backprop


def _unzip(pairs: list[Prepared]) -> tuple[InT, list[Callable[[Floats3d], Floats3d]]]:
    return [X for X, _ in pairs], [back for _, back in pairs]


def _leave(model: Model[InT, OutT], X: Floats3d) -> Prepared:
    return X, lambda dX: dX


def _normalize(model: Model[InT, OutT], X: Floats3d) -> Prepared:
    """Layer normalisation without scale and shift, and its backprop."""
    mean = partial(model.ops.xp.mean, axis=-1, keepdims=True)
    centred = X - mean(X)
    deviation = model.ops.xp.sqrt(mean(centred**2) + EPSILON)
    Y = centred / deviation

    def backprop(dY: Floats3d) -> Floats3d:
        return cast(Floats3d, (dY - mean(dY) - Y * mean(dY * Y)) / deviation)

    return cast(Floats3d, Y), backprop


def _check_name(weights: str) -> None:
    numbered = weights.startswith("layer") and weights[5:].isdecimal()
    if weights not in ("learned", "uniform", "token", "top") and not numbered:
        raise ValueError(
            f"ScalarMix has weights = '{weights}', expected 'learned', 'uniform' or a layer's name: "
            "'token', 'layer1', 'layer2', ..., 'top'."
        )


def _check_known(weights: str, n_layers: int) -> None:
    if weights.startswith("layer") and not 0 <= _layer_index(weights, n_layers) < n_layers:
        names = ["token", *(f"layer{i}" for i in range(1, n_layers))]
        raise ValueError(
            f"ScalarMix has weights = '{weights}', but this biLM has the layers {', '.join(names)}."
        )


def _layer_index(name: str, n_layers: int) -> int:
    if name == "token":
        return 0
    return n_layers - 1 if name == "top" else int(name[5:])
