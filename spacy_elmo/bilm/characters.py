"""Word -> character ids: UTF-8 bytes between word boundaries (bilm-tf, `UnicodeCharsVocabulary`)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

# Ids 0 to 255 are bytes.
BEGIN_SENTENCE = 256
END_SENTENCE = 257
BEGIN_WORD = 258
END_WORD = 259
PADDING = 260
N_CHARACTERS = 261


def encode_words(words: Sequence[str], max_characters: int) -> NDArray[np.int64]:
    """Character ids of words.

    At most max_characters - 2 bytes of a word are kept, between the two word boundaries; what UTF-8
    cannot encode (lone surrogates) is left out, as the reference implementation does.
    *Shape:* (words, max_characters).
    """
    ids = np.full((len(words), max_characters), PADDING, dtype=np.int64)
    for row, word in zip(ids, words, strict=True):
        _frame(row, word.encode("utf-8", "ignore")[: max_characters - 2])
    return ids


def encode_boundaries(max_characters: int) -> NDArray[np.int64]:
    """Character ids of the sentence boundaries, `<S>` and `</S>`. *Shape:* (2, max_characters)."""
    ids = np.full((2, max_characters), PADDING, dtype=np.int64)
    _frame(ids[0], [BEGIN_SENTENCE])
    _frame(ids[1], [END_SENTENCE])
    return ids


def _frame(row: NDArray[np.int64], characters: Sequence[int]) -> None:
    row[0] = BEGIN_WORD
    row[1 : len(characters) + 1] = list(characters)
    row[len(characters) + 1] = END_WORD
