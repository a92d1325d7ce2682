"""How contextual vectors are: the measures of Ethayarajh 2019, section 3.

X is (layers, n, width): n vectors in each layer, all measures are one number a layer. A zero vector has
cosine 0 with every other, as spaCy has it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]


def unit(X: Floats) -> Floats:
    """Vectors scaled to length 1; zero vectors stay zero. *Shape:* that of X."""
    norms = np.linalg.norm(X, axis=-1, keepdims=True)
    return np.divide(X, norms, out=np.zeros_like(X, dtype=np.float64), where=norms > 0)


def mean_cosine(X: Floats) -> Floats:
    """Mean cosine of all pairs of different rows: self-similarity, where they are one word's contexts
    (definition 1), and anisotropy, where they are random words' (section 3.4).

    Without a loop over pairs: |sum of unit vectors|^2 counts each pair twice, and each vector with
    itself.
    """
    units = unit(X)
    n = X.shape[-2]
    if n < 2:
        raise ValueError(f"A mean cosine of pairs needs 2 vectors or more, found {n}.")
    total = (units.sum(axis=-2) ** 2).sum(axis=-1)
    return (total - (units**2).sum(axis=(-2, -1))) / (n * n - n)


def intra_sentence(X: Floats) -> Floats:
    """Mean cosine of a sentence's word vectors with their mean (definition 2)."""
    centre = unit(X.mean(axis=-2))
    return np.einsum("...nw,...w->...n", unit(X), centre).mean(axis=-1)


def explained_variance(X: Floats) -> tuple[Floats, Floats]:
    """Shares of the variance along the first principal component: (MEV, as published).

    MEV (definition 3): The first singular value's share of all, squared; the most that one vector, scaled
        at will, explains of a word's vectors. 1 for identical ones, and at least 1 / n.
    As published: Of the variance about the mean, the share along that component, which is close to the
        mean itself. It is what the published tables hold (scikit-learn's TruncatedSVD divides so; random
        words there have less than their mean cosine, which MEV cannot), and where the paper's "less
        than 5%" comes from. NaN for identical vectors.
    """
    rows = X.astype(np.float64)
    n = rows.shape[-2]
    values, vectors = np.linalg.eigh(rows @ np.swapaxes(rows, -1, -2))
    squares = values[..., -1]  # the largest singular value's
    total = (rows**2).sum(axis=(-2, -1))
    about_mean = total - n * (rows.mean(axis=-2) ** 2).sum(axis=-1)
    about_mean[about_mean <= 1e-9 * total] = 0.0  # rounding is no variance
    along = squares * (1 - n * vectors[..., -1].mean(axis=-1) ** 2)
    return _ratio(squares, total), _ratio(along, about_mean)


def _ratio(part: Floats, whole: Floats) -> Floats:
    return np.divide(part, whole, out=np.full_like(whole, np.nan), where=whole > 0)


@dataclass(frozen=True)
class WordGeometry:
    """One word's contexts. *Shape:* (layers,) each.

    contexts (int): How many vectors were measured. variance: MEV. published_variance: as the published
    tables have it.
    """

    word: str
    contexts: int
    self_similarity: Floats
    variance: Floats
    published_variance: Floats


def measure_word(word: str, X: Floats) -> WordGeometry:
    return WordGeometry(word, X.shape[1], mean_cosine(X), *explained_variance(X))
