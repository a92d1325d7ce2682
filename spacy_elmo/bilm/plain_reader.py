"""A biLM's layers by its own modules, padded, on one thread of computation: where autograd records, and
the standard that the engine is held to.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from .model import BiLM, BiLMState
from .packed_tokens import CHAR_CNN_WORDS

Words = Sequence[str]


class PlainReader:
    """bilm (BiLM): Used with its current weights."""

    def __init__(self, bilm: BiLM) -> None:
        self._bilm = bilm

    def read(self, sentences: list[Words]) -> list[Tensor]:
        """As Engine.read; autograd records it where it is enabled."""
        return self.carry(sentences, self._bilm.zero_state(len(sentences)))[0]

    def carry(self, sentences: list[Words], state: BiLMState) -> tuple[list[Tensor], BiLMState]:
        """As Engine.carry."""
        device = self._bilm.device
        # Rows of the table of token vectors: <S>, </S>, then each distinct word.
        distinct = dict.fromkeys(word for sentence in sentences for word in sentence)
        rows = {word: row for row, word in enumerate(distinct, 2)}
        lengths = torch.tensor([len(sentence) + 2 for sentence in sentences])
        index = torch.zeros(len(sentences), int(lengths.max()), dtype=torch.int64)
        for row, sentence in zip(index, sentences, strict=True):
            row[1 : len(sentence) + 1] = torch.tensor([rows[word] for word in sentence])
            row[len(sentence) + 1] = 1
        tokens = self._encode(list(rows))
        layers, state = self._bilm.contextualize(tokens, index.to(device), lengths, state)
        # Copies, so that a short sentence does not keep the whole batch alive.
        return [layers[:, k, 1 : len(s) + 1].clone() for k, s in enumerate(sentences)], state

    def _encode(self, words: list[str]) -> Tensor:
        """Token vectors of the boundaries and of words. *Shape:* (2 + words, projection_dim)."""
        spelling = self._bilm.spelling
        ids = np.concatenate([spelling.boundaries(), spelling.words(words)])
        blocks = torch.from_numpy(ids).to(self._bilm.device).split(CHAR_CNN_WORDS)
        return torch.cat([self._bilm.encode_words(block) for block in blocks])
