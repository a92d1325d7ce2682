"""`analyze geometry`: a corpus and a pipeline in, one table by layer and one by word out."""

from collections import defaultdict
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from .corpus import CorpusReading
from .geometry import (
    Floats,
    WordGeometry,
    explained_variance,
    intra_sentence,
    mean_cosine,
    measure_word,
)
from .layers import LayerReader
from .sampling import Census, Picks, SampleSize, draw_plan, pick


@dataclass(frozen=True)
class LayerRow:
    """Means of one layer. Every measure stands with its baseline; adjusted is the difference.

    anisotropy: Mean cosine of random words: the baseline of the two similarities.
    variance: MEV as the paper defines it. published_variance: as its tables have it; see
    `geometry.explained_variance`.
    """

    layer: int
    anisotropy: float
    self_similarity: float
    self_similarity_adjusted: float
    intra_sentence: float
    intra_sentence_adjusted: float
    variance: float
    variance_baseline: float
    variance_adjusted: float
    published_variance: float
    published_variance_baseline: float
    published_variance_adjusted: float


@dataclass(frozen=True)
class GeometryStudy:
    """What was measured, of what, and with which sample."""

    model: str
    text: str
    seed: int
    sample: SampleSize
    docs: int
    sentences: int
    tokens: int
    layers: list[LayerRow]
    words: list[WordGeometry] = field(repr=False)

    def summary(self) -> dict[str, Any]:
        """What a JSON file holds; words stand in a table of their own."""
        entry = asdict(self)
        del entry["words"]
        return {**entry, "words_measured": len(self.words)}

    def by_contextuality(self) -> list[WordGeometry]:
        """Words, the most contextual first: by self-similarity, mean of the layers above the first."""
        return sorted(self.words, key=lambda word: (above_tokens(word.self_similarity), word.word))


def above_tokens(measures: Floats) -> float:
    """Mean of a measure over the layers above the token layer (of all, if there is but one)."""
    return float(np.mean(measures[1:] if len(measures) > 1 else measures))


class _Vectors:
    """The sample's vectors, as they come in: no more than the plan draws."""

    def __init__(self) -> None:
        self._words: dict[str, dict[int, Floats]] = defaultdict(dict)
        self._drawn: list[Floats] = []
        self._intra: list[Floats] = []

    def collect(self, layers: Floats, picks: Picks) -> None:
        for word, token, sentence in picks.words:
            self._words[word].setdefault(sentence, layers[:, token].copy())
        for tokens, drawn in picks.sentences:
            self._intra.append(intra_sentence(layers[:, tokens]))
            self._drawn.append(layers[:, drawn].copy())

    def words(self, min_contexts: int) -> list[WordGeometry]:
        """Words whose sentences differ: a repeated sentence is no other context."""
        return [
            measure_word(word, np.stack(list(found.values()), axis=1))
            for word, found in sorted(self._words.items())
            if len(found) >= min_contexts
        ]

    def layers(self, words: list[WordGeometry]) -> list[LayerRow]:
        random = np.stack(self._drawn, axis=1)
        baseline, published_baseline = explained_variance(random)
        table = zip(
            mean_cosine(random),
            np.mean([word.self_similarity for word in words], axis=0),
            np.mean(self._intra, axis=0),
            np.mean([word.variance for word in words], axis=0),
            baseline,
            _mean_where_known([word.published_variance for word in words]),
            published_baseline,
            strict=True,
        )
        return [_row(k, *map(float, values)) for k, values in enumerate(table)]


def study_geometry(
    reader: LayerReader,
    read: CorpusReading,
    *,
    model: str,
    text: str,
    size: SampleSize | None = None,
    seed: int = 0,
) -> GeometryStudy:
    """Measure a corpus, which is read twice.

    model, text (str): What the results are marked with.
    Raises ValueError where no word stands in enough different sentences.
    """
    size = size or SampleSize()
    rng = np.random.default_rng(seed)
    census = Census()
    for doc in read("Count words", None):
        census.count(doc)
    plan = draw_plan(census, size, rng)
    vectors = _Vectors()
    picked = pick(read("Embed the sample", census.docs), plan, rng)
    for layers, picks in reader.read_pairs(picked):
        vectors.collect(layers, picks)
    words = vectors.words(size.min_contexts)
    if not words:
        raise ValueError(
            f"No word stands in {size.min_contexts} different sentences, expected a text that does not "
            "repeat itself."
        )
    rows = vectors.layers(words)
    counts = (census.docs, census.sentences, census.tokens)
    return GeometryStudy(model, text, seed, size, *counts, rows, words)


def _mean_where_known(rows: list[Floats]) -> Floats:
    """Column means, NaN left out; NaN for a column of NaN (identical vectors vary in no direction)."""
    table = np.asarray(rows)
    known = ~np.isnan(table)
    n = known.sum(axis=0)
    total = np.where(known, table, 0.0).sum(axis=0)
    return np.divide(total, n, out=np.full(len(n), np.nan), where=n > 0)


def _row(
    layer: int,
    anisotropy: float,
    self_similarity: float,
    intra: float,
    variance: float,
    variance_baseline: float,
    published: float,
    published_baseline: float,
) -> LayerRow:
    return LayerRow(
        layer=layer,
        anisotropy=anisotropy,
        self_similarity=self_similarity,
        self_similarity_adjusted=self_similarity - anisotropy,
        intra_sentence=intra,
        intra_sentence_adjusted=intra - anisotropy,
        variance=variance,
        variance_baseline=variance_baseline,
        variance_adjusted=variance - variance_baseline,
        published_variance=published,
        published_variance_baseline=published_baseline,
        published_variance_adjusted=published - published_baseline,
    )
