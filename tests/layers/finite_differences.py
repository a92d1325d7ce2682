"""Gradients by central differences: what every backprop written by hand is checked against."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np


def numeric_gradient(
    loss: Callable[[], float], array: Any, eps: float = 1e-6, at: Iterable[Any] | None = None
) -> Any:
    """d loss / d array, entry by entry (at: only these, the others stay zero).

    array is changed in place and put back, so loss has to read it anew at each call.
    """
    gradient = np.zeros(array.shape)
    for i in np.ndindex(array.shape) if at is None else at:
        held = array[i].item()
        array[i] = held + eps
        above = loss()
        array[i] = held - eps
        below = loss()
        array[i] = held
        gradient[i] = (above - below) / (2 * eps)
    return gradient


def inner(one: Iterable[Any], other: Iterable[Any]) -> float:
    """Sum of products over lists of arrays: a loss whose gradient with respect to one is other."""
    return float(sum(np.vdot(a, b) for a, b in zip(one, other, strict=True)))
