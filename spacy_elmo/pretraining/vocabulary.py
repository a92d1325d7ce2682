"""The words that the output layer predicts. The input has no vocabulary: it reads characters."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..bilm.formats.files import write_atomically
from .corpus import Document
from .errors import PretrainingError

# As in bilm-tf, they stand first; the others follow by falling frequency, as the sampler expects.
BEGIN_SENTENCE, END_SENTENCE, UNKNOWN = 0, 1, 2
SPECIAL = ("<S>", "</S>", "<UNK>")


class Vocabulary:
    """Words and their ids in the output layer."""

    def __init__(self, words: Sequence[str]) -> None:
        """words: Without the three special ones, by falling frequency."""
        self.words = (*SPECIAL, *words)
        # The special words are marks: the same string in a text is a word that is not known.
        self._ids = {word: id_ for id_, word in enumerate(words, len(SPECIAL))}

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self._ids

    def ids(self, words: Iterable[str]) -> list[int]:
        get = self._ids.get
        return [get(word, UNKNOWN) for word in words]

    def write(self, path: Path) -> None:
        """Write one word a line."""
        text = "\n".join(self.words) + "\n"
        write_atomically(path, lambda place: place.write_text(text, encoding="utf8"))

    @classmethod
    def read(cls, path: Path) -> "Vocabulary":
        try:
            words = path.read_text(encoding="utf8").removesuffix("\n").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise PretrainingError(
                f"{path} cannot be read ({error}): expected the output layer's words, one a line."
            ) from None
        if tuple(words[: len(SPECIAL)]) != SPECIAL:
            raise PretrainingError(f"{path} does not begin with the lines {', '.join(SPECIAL)}.")
        return cls(words[len(SPECIAL) :])


@dataclass(frozen=True)
class TextCounts:
    """What one pass over a text found."""

    sentences: int
    tokens: int
    types: int
    known: int
    """Tokens that are in the vocabulary."""

    @property
    def coverage(self) -> float:
        return self.known / self.tokens

    @property
    def positions(self) -> int:
        """Predictions of one direction: every token and one boundary a sentence."""
        return self.tokens + self.sentences


def count(
    documents: Iterable[Document],
    *,
    min_count: int,
    max_size: int,
    known: Sequence[str] = (),
) -> tuple[Vocabulary, TextCounts]:
    """Count a text in one pass and keep its frequent words.

    min_count (int): Occurrences that a word of the vocabulary has at least.
    max_size (int): Words of the vocabulary at most, the three special ones included.
    known: Words that are kept whatever their counts, after the others and beyond max_size.
    """
    counts: Counter[str] = Counter()
    sentences = 0
    for document in documents:
        for sentence in document:
            counts.update(sentence)
            sentences += 1
    tokens, types = counts.total(), len(counts)
    for word in SPECIAL:
        del counts[word]
    # Ties by the alphabet, so that the order of the files does not matter.
    kept = sorted((word for word, n in counts.items() if n >= min_count), key=str)
    kept = sorted(kept, key=counts.__getitem__, reverse=True)[: max(max_size - len(SPECIAL), 0)]
    if not kept:
        raise PretrainingError(
            f"No word occurs {min_count} times in {tokens} tokens: lower "
            "pretraining.vocabulary.min_count or give more text."
        )
    kept = list(dict.fromkeys([*kept, *known]))
    return Vocabulary(kept), TextCounts(sentences, tokens, types, sum(counts[w] for w in kept))
