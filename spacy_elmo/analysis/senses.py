"""Word senses by nearest neighbour (Peters et al. 2018, section 5.3, after Melamud et al. 2016).

Each sense is the mean of its vectors in the training data; a word gets the sense, of those known
of it, of the highest cosine. A word that the training data lacks falls back to the most frequent sense
of its lemma as another part of speech, and if there is none gets none.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from spacy.language import Language
from spacy.tokens import Doc

from .corpus import CorpusError, failures_named, open_text, suffix
from .geometry import unit
from .layers import LayerReader
from .representations import Floats, accuracy, representations

Word = tuple[str, str]  # lemma, part of speech


@dataclass(frozen=True)
class Annotation:
    """A token of a Doc, the word that it is, and the sense it has."""

    token: int
    word: Word
    sense: str


Sentences = Iterable[tuple[Doc, list[Annotation]]]


def read_senses(path: Path, nlp: Language) -> Iterator[tuple[Doc, list[Annotation]]]:
    """JSONL, a sentence a line: {"tokens": [...], "senses": [[index, lemma, part of speech,
    sense], ...]}.
    """
    if not path.is_file() or suffix(path) != ".jsonl":
        raise CorpusError(
            f"'{path}' is not a .jsonl file, expected lines of "
            '{"tokens": [...], "senses": [[index, lemma, pos, sense], ...]}.'
        )
    with failures_named(path), open_text(path) as file:
        for number, line in enumerate(file, start=1):
            try:
                entry = json.loads(line)
                doc = Doc(nlp.vocab, words=entry["tokens"])
                found = [Annotation(i, (lemma, pos), s) for i, lemma, pos, s in entry["senses"]]
                for annotation in found:
                    doc[annotation.token]  # raises IndexError
            except (ValueError, KeyError, TypeError, IndexError) as error:
                raise CorpusError(
                    f"Line {number} of '{path}' has no tokens with senses "
                    f"({type(error).__name__}: {error})."
                ) from error
            yield doc, found


def draw_sentences(
    read: Callable[[], Sentences], max_tokens: int | None, seed: int
) -> Iterator[tuple[Doc, list[Annotation]]]:
    """About max_tokens of a corpus, evenly over it; None: all. read: Starts a fresh reading."""
    share = 1.0
    if max_tokens is not None:
        share = max_tokens / max(1, sum(len(doc) for doc, _ in read()))
    rng = np.random.default_rng(seed)
    return (pair for pair in read() if share >= 1 or rng.random() < share)


@dataclass
class Sense:
    """count (int): Times in training. total: Sum of the vectors. *Shape:* (layers, width)."""

    count: int
    total: Floats

    @property
    def mean(self) -> Floats:
        return self.total / self.count


@dataclass
class Inventory:
    """The senses of each word in the training data; and a sample of instances to learn a mix on."""

    words: dict[Word, dict[str, Sense]] = field(default_factory=dict)
    sample: list[tuple[Word, str, Floats]] = field(default_factory=list)
    instances: int = 0

    def add(self, word: Word, sense: str, vectors: Floats) -> None:
        senses = self.words.setdefault(word, {})
        if sense in senses:
            senses[sense].count += 1
            senses[sense].total += vectors
        else:
            senses[sense] = Sense(1, vectors.astype(np.float32))

    def most_frequent(self, word: Word) -> str | None:
        """Of several that are, the first in the alphabet; for a word not seen that of its lemma, None
        where that was not seen either.
        """
        counts: Counter[str] = Counter()
        alike = [word] if word in self.words else [w for w in self.words if w[0] == word[0]]
        for each in alike:
            counts.update({name: sense.count for name, sense in self.words[each].items()})
        return min(counts, key=lambda name: (-counts[name], name), default=None)

    def nearest(self, word: Word, vectors: Floats, weights: Floats) -> str | None:
        """By layers mixed with weights; for a word not seen its lemma's most frequent sense."""
        senses = self.words.get(word)
        if not senses:
            return self.most_frequent(word)
        names = list(senses)
        means = np.stack([np.tensordot(weights, senses[name].mean, 1) for name in names])
        cosines = unit(means) @ unit(np.tensordot(weights, vectors, 1))
        return names[int(cosines.argmax())]


@dataclass(frozen=True)
class SenseRow:
    """Accuracy of one representation: of all instances, of those of words seen in training, and of
    those of words seen with several senses (NaN where there are none).
    """

    name: str
    total: float
    seen: float
    ambiguous: float


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
    reader: LayerReader, sentences: Sentences, *, sample: int = 1000, seed: int = 0
) -> Inventory:
    """Means of the senses. sample (int): Instances kept, drawn evenly (a reservoir)."""
    rng = np.random.default_rng(seed)
    inventory = Inventory()
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
    named = representations(mix)
    right: list[list[bool]] = []
    senses_known: list[int] = []
    for layers, annotations in reader.read_pairs(sentences):
        for annotation in annotations:
            vectors = layers[:, annotation.token]
            senses_known.append(len(inventory.words.get(annotation.word, ())))
            answers = [inventory.most_frequent(annotation.word)]
            answers += [inventory.nearest(annotation.word, vectors, w) for w in named.values()]
            right.append([answer == annotation.sense for answer in answers])
    if not right:
        raise ValueError("The test data has no senses, expected some.")
    table, known = np.array(right), np.array(senses_known)
    rows = [
        SenseRow(name, accuracy(column), accuracy(column[known > 0]), accuracy(column[known > 1]))
        for name, column in zip(["most frequent sense", *named], table.T, strict=True)
    ]
    seen, ambiguous = int((known > 0).sum()), int((known > 1).sum())
    return SenseStudy(inventory.instances, len(right), seen, ambiguous, rows, mix)
