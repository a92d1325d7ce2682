"""The characters and words that have vectors, where a biLM does not read bytes (ELMoForManyLangs)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .errors import BiLMError

# Marks that stand among the characters and, the last four, among the words.
BEGIN_WORD, END_WORD = "<bow>", "<eow>"
BEGIN_SENTENCE, END_SENTENCE = "<bos>", "<eos>"
UNKNOWN, PADDING = "<oov>", "<pad>"
CHARACTER_MARKS = (BEGIN_WORD, END_WORD, BEGIN_SENTENCE, END_SENTENCE, UNKNOWN, PADDING)


@dataclass(frozen=True)
class Lexicon:
    """characters (tuple[str, ...]): Of each row of the character table, the marks included.

    words (tuple[str, ...]): Of each row of the word table; none: words have no vectors of their own.
    word_dim (int): Width of a word's own vector.
    """

    characters: tuple[str, ...]
    words: tuple[str, ...] = ()
    word_dim: int = 0

    def __post_init__(self) -> None:
        for name in ("characters", "words"):
            values = getattr(self, name)
            if not isinstance(values, tuple) or not all(isinstance(v, str) for v in values):
                raise BiLMError(f"lexicon has {name} that are no list of strings.")
            if len(set(values)) < len(values):
                raise BiLMError(f"lexicon has {name} that stand in it twice, expected each once.")
        missing = [mark for mark in CHARACTER_MARKS if mark not in self.characters]
        if missing:
            raise BiLMError(f"lexicon has no character {missing[0]!r}, which spelling needs.")
        if not isinstance(self.word_dim, int) or self.word_dim < 0:
            raise BiLMError(f"lexicon has the word_dim {self.word_dim!r}, expected a whole number.")
        if bool(self.words) != bool(self.word_dim):
            raise BiLMError(
                f"lexicon has {len(self.words)} words of width {self.word_dim}, expected both or none."
            )
        if self.words and UNKNOWN not in self.words:
            raise BiLMError(f"lexicon has no word {UNKNOWN!r}, which stands for all other words.")

    @property
    def padding(self) -> int:
        return self.characters.index(PADDING)

    @classmethod
    def from_dict(cls, values: object) -> "Lexicon":
        """Build from the output of dataclasses.asdict, as read back from JSON."""
        if not isinstance(values, Mapping) or "characters" not in values:
            raise BiLMError("lexicon is no object with characters.")
        if unknown := sorted(set(values) - {"characters", "words", "word_dim"}):
            raise BiLMError(f"lexicon has the unknown key {unknown[0]!r}.")
        parsed: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in values.items()
        }
        return cls(**parsed)
