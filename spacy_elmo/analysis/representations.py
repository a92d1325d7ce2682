"""What a study compares, and how often one of them is right."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]


def representations(learned_mix: Floats) -> dict[str, Floats]:
    """Every layer, the layers' average and a learned mix: their names, and the weights of the layers."""
    n_layers = len(learned_mix)
    layers = {f"layer {k}": np.eye(n_layers)[k] for k in range(n_layers)}
    return {**layers, "uniform mix": np.full(n_layers, 1 / n_layers), "learned mix": learned_mix}


def accuracy(right: NDArray[Any]) -> float:
    """NaN where nothing was asked."""
    return float(right.mean()) if len(right) else float("nan")
