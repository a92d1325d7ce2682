"""A mix of layers learned for word senses: the one whose cosines tell a word's senses apart best.

Cosines of mixed vectors come from the inner products of layers alone, so that each instance and sense is
three small matrices, and the weights are found by a general minimiser.
"""

import numpy as np

from ..extras import require
from .representations import Floats
from .senses import Inventory, Sense

TEMPERATURE = 0.1  # cosines of -1 to 1, as logits of -10 to 10


def learn_sense_mix(inventory: Inventory) -> Floats:
    """Layer weights, summing to one, of the lowest cross-entropy on the inventory's sample;
    uniform where no word of it has several senses. *Shape:* (layers,).

    An instance is left out of its own sense's mean, and is no example where that leaves none.
    """
    n_layers = len(inventory.sample[0][2])
    across: list[Floats] = []
    own: list[Floats] = []
    means: list[Floats] = []
    starts: list[int] = []
    gold: list[bool] = []
    for word, sense, vectors in inventory.sample:
        senses = inventory.words[word]
        if len(senses) < 2 or senses[sense].count < 2:
            continue
        starts.append(len(across))
        for name, known in senses.items():
            mean = _without(known, vectors) if name == sense else known.mean
            gold.append(name == sense)
            across.append(vectors @ mean.T)
            own.append(vectors @ vectors.T)
            means.append(mean @ mean.T)
    if not starts:
        return np.full(n_layers, 1 / n_layers)
    A, X, C = (np.array(each, dtype=np.float64) for each in (across, own, means))
    is_gold = np.array(gold)

    softmax = require("scipy.special").softmax

    def loss(scalars: Floats) -> float:
        w = softmax(scalars)
        norms = np.einsum("i,nij,j->n", w, X, w) * np.einsum("i,nij,j->n", w, C, w)
        logits = np.einsum("i,nij,j->n", w, A, w) / np.sqrt(norms + 1e-12) / TEMPERATURE
        totals = np.add.reduceat(np.exp(logits), starts)
        return float((np.log(totals) - logits[is_gold]).mean()) + 1e-4 * float(scalars @ scalars)

    result = require("scipy.optimize").minimize(loss, np.zeros(n_layers), method="L-BFGS-B")
    return np.asarray(softmax(result.x))


def _without(sense: Sense, vectors: Floats) -> Floats:
    return (sense.total - vectors) / (sense.count - 1)
