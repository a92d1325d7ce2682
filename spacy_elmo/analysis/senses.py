"""Word senses by nearest neighbour (Peters et al. 2018, section 5.3, after Melamud et al. 2016).

Each sense is the mean of its vectors in the training data; a word gets the sense, of those known
of it, of the highest cosine. So a rare sense is as good a guess as a frequent one; where instead the
nearest single use decides, frequent senses have more uses that may be near. A word that the training
data lacks falls back to the most frequent sense of its lemma as another part of speech, and if there is
none gets none.
"""

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .geometry import unit
from .layers import LayerReader
from .representations import Floats, accuracy, representations
from .sense_corpus import Sentences, Word


@dataclass
class Sense:
    """count (int): Times in training. total: Sum of the vectors. *Shape:* (layers, width). uses: Each of
    them, where they are kept, in half precision.
    """

    count: int
    total: Floats
    uses: list[Floats] = field(default_factory=list)

    @property
    def mean(self) -> Floats:
        return self.total / self.count


@dataclass
class Inventory:
    """The senses of each word in the training data; and a sample of instances to learn a mix on.

    keep_uses (bool): Keep every use, to compare with each; else only the senses' means.
    """

    keep_uses: bool = False
    words: dict[Word, dict[str, Sense]] = field(default_factory=dict)
    sample: list[tuple[Word, str, Floats]] = field(default_factory=list)
    instances: int = 0

    def add(self, word: Word, sense: str, vectors: Floats) -> None:
        known = self.words.setdefault(word, {}).get(sense)
        if known is None:
            known = self.words[word][sense] = Sense(0, np.zeros_like(vectors, dtype=np.float32))
        known.count += 1
        known.total += vectors
        if self.keep_uses:
            known.uses.append(vectors.astype(np.float16))

    def most_frequent(self, word: Word) -> str | None:
        """Of several that are, the first in the alphabet; for a word not seen that of its lemma, None
        where that was not seen either.
        """
        counts: Counter[str] = Counter()
        alike = [word] if word in self.words else [w for w in self.words if w[0] == word[0]]
        for each in alike:
            counts.update({name: sense.count for name, sense in self.words[each].items()})
        return min(counts, key=lambda name: (-counts[name], name), default=None)

    def nearest(
        self, word: Word, uses: Floats, weights: Floats, by_use: bool = False
    ) -> list[str | None]:
        """The sense of each use of a word, by layers mixed with weights; for a word not seen its lemma's
        most frequent one. uses: *Shape:* (n, layers, width). by_use (bool): That of the nearest single
        use, not of the nearest mean.
        """
        if word not in self.words:
            return [self.most_frequent(word)] * len(uses)
        names, known = self._known(word, by_use)
        cosines = unit(_mixed(weights, uses)) @ unit(_mixed(weights, known)).T
        return [names[i] for i in cosines.argmax(axis=1)]

    def _known(self, word: Word, by_use: bool) -> tuple[list[str], Floats]:
        """What a word is compared with: vectors, and of each the name of its sense."""
        senses = self.words[word]
        if not by_use:
            return list(senses), np.stack([sense.mean for sense in senses.values()])
        names = [name for name, sense in senses.items() for _ in sense.uses]
        return names, np.stack([use for sense in senses.values() for use in sense.uses])


def _mixed(weights: Floats, vectors: Floats) -> Floats:
    """(n, layers, width) to (n, width)."""
    return np.tensordot(vectors, weights, (1, 0))


@dataclass(frozen=True)
class SenseRow:
    """Accuracy of one representation: of all instances, of those of words seen in training, and of
    those of words seen with several senses (NaN where there are none).

    by_use (float): As ambiguous, by the nearest single use; NaN where uses are not kept.
    """

    name: str
    total: float
    seen: float
    ambiguous: float
    by_use: float


@dataclass(frozen=True)
class SenseStudy:
    """rows: The most frequent sense first, then the representations. mix: Weights of the learned mix."""

    train: int
    test: int
    seen: int
    ambiguous: int
    rows: list[SenseRow]
    mix: Floats


def learn_senses(
    reader: LayerReader,
    sentences: Sentences,
    *,
    keep_uses: bool = False,
    sample: int = 1000,
    seed: int = 0,
) -> Inventory:
    """The senses. sample (int): Instances kept to learn a mix on, drawn evenly (a reservoir)."""
    rng = np.random.default_rng(seed)
    inventory = Inventory(keep_uses)
    for layers, annotations in reader.read_pairs(sentences):
        for annotation in annotations:
            vectors = layers[:, annotation.token]
            inventory.add(annotation.word, annotation.sense, vectors)
            entry = (annotation.word, annotation.sense, vectors.copy())
            if len(inventory.sample) < sample:
                inventory.sample.append(entry)
            elif (at := int(rng.integers(inventory.instances + 1))) < sample:
                inventory.sample[at] = entry
            inventory.instances += 1
    return inventory


def evaluate_senses(
    reader: LayerReader,
    inventory: Inventory,
    sentences: Sentences,
    learn_mix: Callable[[Inventory], Floats],
) -> SenseStudy:
    """Every layer, the layers' average and a learned mix, beside the most frequent sense."""
    if not inventory.instances:
        raise ValueError("The training data has no senses, expected some.")
    mix = learn_mix(inventory)
    # By word, so that what each is compared with is mixed once.
    uses: dict[Word, list[Floats]] = defaultdict(list)
    gold: dict[Word, list[str]] = defaultdict(list)
    for layers, annotations in reader.read_pairs(sentences):
        for annotation in annotations:
            uses[annotation.word].append(layers[:, annotation.token].copy())
            gold[annotation.word].append(annotation.sense)
    if not uses:
        raise ValueError("The test data has no senses, expected some.")
    named = representations(mix)
    first = "most frequent sense"
    by_mean: dict[str, list[str | None]] = {name: [] for name in (first, *named)}
    by_use: dict[str, list[str | None]] = (
        {name: [] for name in named} if inventory.keep_uses else {}
    )
    for word, vectors in ((word, np.stack(each)) for word, each in uses.items()):
        by_mean[first] += [inventory.most_frequent(word)] * len(vectors)
        for name, weights in named.items():
            by_mean[name] += inventory.nearest(word, vectors, weights)
            if by_use:
                by_use[name] += inventory.nearest(word, vectors, weights, by_use=True)
    expected = [sense for word in uses for sense in gold[word]]
    known = np.array([len(inventory.words.get(word, ())) for word in uses for _ in gold[word]])

    def rights(found: list[str | None]) -> NDArray[np.bool_]:
        return np.array([a == b for a, b in zip(found, expected, strict=True)])

    rows = []
    for name, found in by_mean.items():
        right = rights(found)
        single = accuracy(rights(by_use[name])[known > 1]) if name in by_use else float("nan")
        seen, ambiguous = accuracy(right[known > 0]), accuracy(right[known > 1])
        rows.append(SenseRow(name, accuracy(right), seen, ambiguous, single))
    counts = (inventory.instances, len(known), int((known > 0).sum()), int((known > 1).sum()))
    return SenseStudy(*counts, rows, mix)
