"""Nearest uses of a word in its sentences, and nearest types of a static table (Peters et al.
2018, table 4).

The index is Faiss's: exact cosines over half-precision vectors, so that a million tokens of width
1024 take 2 GB, and nothing is approximated but the last digits.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.language import Language
from spacy.tokens import Doc

from ..extras import require
from .geometry import unit
from .layers import LayerReader
from .sampling import sentence_tokens, sentences
from .static_types import TypeTable, nearest_vectors

Floats = NDArray[np.floating]


@dataclass(frozen=True)
class Use:
    """A token in its sentence. text: The sentence's; start, end: Where in it the token stands."""

    text: str
    start: int
    end: int

    @property
    def word(self) -> str:
        return self.text[self.start : self.end]


@dataclass(frozen=True)
class Neighbour:
    use: Use
    cosine: float


@dataclass(frozen=True)
class UseNeighbours:
    """A use of the word, and the nearest uses in other sentences, the nearest first."""

    use: Use
    neighbours: list[Neighbour]


@dataclass(frozen=True)
class WordNeighbours:
    """types: The nearest types of the static table, with cosines; none if it lacks the word."""

    word: str
    uses: list[UseNeighbours]
    types: list[tuple[str, float]]


class UseIndex:
    """Unit vectors of tokens, and where those stand."""

    def __init__(self, width: int) -> None:
        faiss = require("faiss")
        inner, half = faiss.METRIC_INNER_PRODUCT, faiss.ScalarQuantizer.QT_fp16
        self._index = faiss.IndexScalarQuantizer(width, half, inner)
        self._index.is_trained = True
        self._spans = array("l")  # sentence, start, end of each
        self._texts: list[str] = []

    def __len__(self) -> int:
        return len(self._spans) // 3

    def add(self, text: str, spans: Sequence[tuple[int, int]], vectors: Floats) -> None:
        """A sentence's tokens. *Shape:* (tokens, width)."""
        self._index.add(np.ascontiguousarray(unit(vectors), dtype=np.float32))
        for start, end in spans:
            self._spans.extend((len(self._texts), start, end))
        self._texts.append(text)

    def use(self, row: int) -> Use:
        sentence, start, end = self._spans[3 * row : 3 * row + 3]
        return Use(self._texts[sentence], start, end)

    def nearest(self, row: int, k: int) -> UseNeighbours:
        """Of row, in sentences that read otherwise than its own."""
        use = self.use(row)
        query = self._index.reconstruct(row)[None]
        wanted = min(len(self), 4 * k + 64)
        while True:
            found = self._search(use, query, wanted)
            if len(found) >= k or wanted >= len(self):
                return UseNeighbours(use, found[:k])
            wanted = min(len(self), 4 * wanted)

    def _search(self, use: Use, query: Floats, wanted: int) -> list[Neighbour]:
        cosines, rows = self._index.search(query, wanted)
        found: list[Neighbour] = []
        texts = {use.text}
        for cosine, row in zip(cosines[0].tolist(), rows[0].tolist(), strict=True):
            other = self.use(row)
            if other.text not in texts:  # a repeated sentence is the same use once more
                texts.add(other.text)
                found.append(Neighbour(other, cosine))
        return found


def find_neighbours(
    reader: LayerReader,
    docs: Iterable[Doc],
    words: Sequence[str],
    *,
    layer: str = "top",
    k: int = 5,
    uses: int = 5,
    same_word: bool = False,
    seed: int = 0,
    static: Language | None = None,
) -> list[WordNeighbours]:
    """Nearest uses and types of words, which are compared as lower case.

    layer (str): As of `weights_of`. k (int): Neighbours of a use. uses (int): Most uses of a
        word shown, drawn evenly. same_word (bool): Only uses of the same word are neighbours.
    static: A pipeline with static vectors; None: the token layer's mean of each type.
    """
    wanted = list(dict.fromkeys(word.lower() for word in words))
    index: UseIndex | None = None
    table = TypeTable()
    rows: dict[str, list[int]] = {word: [] for word in wanted}
    for doc, layers in reader.read(docs):
        vectors = np.tensordot(weights_of(layer, len(layers)), layers, 1)
        index = index or UseIndex(vectors.shape[1])
        for text, spans, tokens in _sentences(doc):
            lower = [doc[i].lower_ for i in tokens]
            if static is None:
                for word, i in zip(lower, tokens, strict=True):
                    table.add(word, layers[0, i])
            keep = [j for j, word in enumerate(lower) if not same_word or word in wanted]
            for at, j in enumerate(keep):
                if lower[j] in wanted:
                    rows[lower[j]].append(len(index) + at)
            if keep:
                index.add(text, [spans[j] for j in keep], vectors[[tokens[j] for j in keep]])
    rng = np.random.default_rng(seed)
    found = []
    for word in wanted:
        of_word = rows[word]
        if index is None or not of_word:
            raise ValueError(f"'{word}' does not stand in the text, expected a word that does.")
        drawn = sorted(rng.choice(of_word, size=min(uses, len(of_word)), replace=False).tolist())
        types = table.nearest(word, k) if static is None else nearest_vectors(static, word, k)
        found.append(WordNeighbours(word, [index.nearest(row, k) for row in drawn], types))
    return found


def weights_of(layer: str, n_layers: int) -> Floats:
    """layer: A number, "token" (0), "top" or "mix" (the average)."""
    if layer == "mix":
        return np.full(n_layers, 1 / n_layers)
    number = {"token": 0, "top": n_layers - 1}.get(layer, int(layer) if layer.isdecimal() else -1)
    if not 0 <= number < n_layers:
        raise ValueError(
            f"There is no layer '{layer}', expected 0 to {n_layers - 1}, 'token', 'top' or 'mix'."
        )
    return np.eye(n_layers)[number]


def _sentences(doc: Doc) -> Iterator[tuple[str, list[tuple[int, int]], list[int]]]:
    """Text, character spans of tokens in it, and their indices; for each sentence."""
    for sentence in sentences(doc):
        tokens = sentence_tokens(sentence)
        start = doc[tokens[0]].idx
        end = doc[tokens[-1]].idx + len(doc[tokens[-1]])
        spans = [(doc[i].idx - start, doc[i].idx - start + len(doc[i])) for i in tokens]
        yield doc.text[start:end], spans, tokens


def to_rows(found: Sequence[WordNeighbours]) -> list[dict[str, Any]]:
    """Plain data for a JSON file."""
    return [
        {
            "word": each.word,
            "types": [{"type": word, "cosine": cosine} for word, cosine in each.types],
            "uses": [
                {
                    "sentence": use.use.text,
                    "at": [use.use.start, use.use.end],
                    "neighbours": [
                        {
                            "cosine": near.cosine,
                            "word": near.use.word,
                            "sentence": near.use.text,
                            "at": [near.use.start, near.use.end],
                        }
                        for near in use.neighbours
                    ],
                }
                for use in each.uses
            ],
        }
        for each in found
    ]
