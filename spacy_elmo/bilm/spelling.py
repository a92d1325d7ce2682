"""Words -> rows of ids: how a biLM spells them. What a config chooses between stands here."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from . import lexicon as marks
from .characters import encode_boundaries, encode_words
from .config import BiLMConfig
from .lexicon import Lexicon

Ids = NDArray[np.int64]


class Spelling(Protocol):
    """Words and sentence boundaries as rows of ids, filled up with `config.padding`."""

    def words(self, words: Sequence[str]) -> Ids:
        """*Shape:* (words, max_characters), and one column more, the word's own id, where words
        have vectors of their own.
        """
        ...

    def boundaries(self) -> Ids:
        """Rows of the two sentence boundaries. *Shape:* (2, columns)."""
        ...


def make_spelling(config: BiLMConfig) -> Spelling:
    if config.lexicon is None:
        return Utf8Spelling(config.max_characters)
    return LexiconSpelling(config.lexicon, config.max_characters)


class Utf8Spelling:
    """UTF-8 bytes (bilm-tf)."""

    def __init__(self, max_characters: int) -> None:
        self.max_characters = max_characters

    def words(self, words: Sequence[str]) -> Ids:
        return encode_words(words, self.max_characters)

    def boundaries(self) -> Ids:
        return encode_boundaries(self.max_characters)


class LexiconSpelling:
    """Unicode characters, as they are written, and words (ELMoForManyLangs, `create_one_batch`).

    A word of more than max_characters - 2 characters is cut before it is looked up, too.
    """

    def __init__(self, lexicon: Lexicon, max_characters: int) -> None:
        self.max_characters = max_characters
        self._characters = {character: i for i, character in enumerate(lexicon.characters)}
        self._words = {word: i for i, word in enumerate(lexicon.words)}

    def words(self, words: Sequence[str]) -> Ids:
        cut = [word[: self.max_characters - 2] for word in words]
        return self._rows([(word, [self._character(c) for c in word]) for word in cut])

    def boundaries(self) -> Ids:
        names = (marks.BEGIN_SENTENCE, marks.END_SENTENCE)
        return self._rows([(name, [self._characters[name]]) for name in names])

    def _character(self, character: str) -> int:
        return self._characters.get(character, self._characters[marks.UNKNOWN])

    def _rows(self, spelled: list[tuple[str, list[int]]]) -> Ids:
        columns = self.max_characters + bool(self._words)
        ids = np.full((len(spelled), columns), self._characters[marks.PADDING], dtype=np.int64)
        for row, (word, characters) in zip(ids, spelled, strict=True):
            # The published models were trained with the two marks of a word exchanged.
            framed = [self._characters[marks.END_WORD], *characters]
            framed.append(self._characters[marks.BEGIN_WORD])
            row[: len(framed)] = framed
            if self._words:
                row[-1] = self._words.get(word, self._words[marks.UNKNOWN])
        return ids
