"""Dropout at the rate of its own config block (Peters et al. 2018, section 3.3: on the mixed vector)."""

from collections.abc import Callable

from thinc.api import Model
from thinc.types import Floats2d

InT = list[Floats2d]


def configured_dropout(rate: float) -> Model[InT, InT]:
    """As Thinc's Dropout, but spaCy's `training.dropout` leaves the rate alone: it overwrites every
    attribute called `dropout_rate`, and 0.1, right for a CNN, is too little here.
    """
    if not 0 <= rate < 1:
        raise ValueError(f"dropout is {rate}, expected at least 0 and below 1.")
    return Model("configured_dropout", forward, attrs={"rate": rate})


def forward(model: Model[InT, InT], Xs: InT, is_train: bool) -> tuple[InT, Callable[[InT], InT]]:
    rate = model.attrs["rate"]
    if not is_train or rate == 0:
        return Xs, lambda dXs: dXs
    masks = [model.ops.get_dropout_mask(X.shape, rate) for X in Xs]

    def backprop(dYs: InT) -> InT:
        return [dY * mask for dY, mask in zip(dYs, masks, strict=True)]

    return [X * mask for X, mask in zip(Xs, masks, strict=True)], backprop
