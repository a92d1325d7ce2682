"""Nearest types of a static table: the other column of table 4 in Peters et al. 2018."""

import numpy as np
from numpy.typing import NDArray
from spacy.language import Language

from .geometry import unit

Floats = NDArray[np.floating]


class TypeTable:
    """A static table built from the token layer: the mean vector of each word type."""

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}
        self._sums: list[Floats] = []
        self._counts: list[int] = []

    def add(self, word: str, vector: Floats) -> None:
        row = self._rows.setdefault(word, len(self._rows))
        if row == len(self._sums):
            self._sums.append(vector.astype(np.float32))
            self._counts.append(1)
        else:
            self._sums[row] += vector
            self._counts[row] += 1

    def nearest(self, word: str, k: int, min_count: int = 3) -> list[tuple[str, float]]:
        """Types seen min_count times or more."""
        if word not in self._rows:
            return []
        kept = [w for w, row in self._rows.items() if self._counts[row] >= min_count and w != word]
        if not kept:
            return []
        table = unit(np.stack([self._sums[self._rows[w]] for w in kept]))
        cosines = table @ unit(self._sums[self._rows[word]])
        best = np.argsort(-cosines, kind="stable")[:k]
        return [(kept[i], float(cosines[i])) for i in best]


def nearest_vectors(nlp: Language, word: str, k: int) -> list[tuple[str, float]]:
    """Nearest types in a pipeline's own static vectors; none if it lacks the word."""
    vectors = nlp.vocab.vectors
    row = vectors.key2row.get(
        nlp.vocab.strings[word]
    )  # empty for floret vectors, which know no types
    if row is None:
        return []
    n = min(k + 10, len(set(vectors.key2row.values())))
    keys, _, scores = vectors.most_similar(np.asarray(vectors.data[row : row + 1]), n=n)
    found = [
        (nlp.vocab.strings[key], float(score))
        for key, score in zip(keys[0], scores[0], strict=True)
    ]
    return [(other, score) for other, score in found if other.lower() != word.lower()][:k]
