"""Lists of words -> arrays of layers: batching, distinct words once, memory bounded."""

import reprlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .model import BiLM, BiLMState
from .threads import limit_threads_of_worker
from .token_cache import TokenCache

Words = Sequence[str]
Kept = TypeVar("Kept")
# Words that the char CNN reads at once: bounds its memory, (words, positions, filters).
CHAR_CNN_WORDS = 512


class Embedder:
    """Embed sentences with a biLM.

    bilm (BiLM): Used where it is, on its device, with its current weights.
    batch_words (int): Words of a batch, padding and boundaries included; a longer sentence is a
        batch of its own. Bounds memory, does not change results.
    token_cache (TokenCache | None): Words that the char CNN need not read; it stands for the weights
        that it was computed with, so it is of no use while the biLM is trained.
    """

    def __init__(
        self, bilm: BiLM, *, batch_words: int = 4096, token_cache: TokenCache | None = None
    ) -> None:
        if batch_words < 1:
            raise ValueError(f"batch_words is {batch_words}, expected at least 1.")
        self.bilm = bilm
        self.batch_words = batch_words
        self.token_cache = token_cache

    def __call__(self, sentences: Iterable[Words]) -> list[NDArray[np.float32]]:
        """Layers of each sentence, read between `<S>` and `</S>` from the zero state.

        *Shape:* (layers, words, width) for each sentence, layer 0 first.
        """
        with torch.no_grad():
            # Each batch leaves the device before the next is read.
            return self._embed(sentences, lambda layers: layers.cpu().numpy())

    def tensors(self, sentences: Iterable[Words]) -> list[Tensor]:
        """As a call, but tensors on the biLM's device; autograd records them where it is enabled."""
        return self._embed(sentences, lambda layers: layers)

    def carry(self, documents: Iterable[Iterable[Words]]) -> list[list[Tensor]]:
        """Embed documents whose sentences each start from the state the one before them left.

        A document starts from the zero state, so what it gives depends on it alone.
        *Shape:* (layers, words, width) for each sentence of each document.
        """
        todo = [_checked(document) for document in documents]
        results: list[list[Tensor]] = [[] for _ in todo]
        # Side by side as many documents as their longest sentences leave room for.
        for group in self._batches([max(doc, key=len, default=()) for doc in todo]):
            state = self.bilm.zero_state(len(group))
            for turn in range(max(len(todo[i]) for i in group)):
                rows = [row for row, i in enumerate(group) if turn < len(todo[i])]
                layers, after = self._read([todo[group[r]][turn] for r in rows], _pick(state, rows))
                state = _put(state, rows, after)
                for row, result in zip(rows, layers, strict=True):
                    results[group[row]].append(result)
        return results

    def _embed(self, sentences: Iterable[Words], keep: Callable[[Tensor], Kept]) -> list[Kept]:
        todo = _checked(sentences)
        results: dict[int, Kept] = {}
        for batch in self._batches(todo):
            layers, _ = self._read([todo[i] for i in batch], None)
            results.update(zip(batch, map(keep, layers), strict=True))
        return [results[i] for i in range(len(todo))]

    def _batches(self, sentences: list[Words]) -> Iterator[list[int]]:
        """Positions of sentences of about one length, within the budget of words."""
        batch: list[int] = []
        for i in sorted(range(len(sentences)), key=lambda i: len(sentences[i])):
            longest = len(sentences[i]) + 2
            if batch and longest * (len(batch) + 1) > self.batch_words:
                yield batch
                batch = []
            batch.append(i)
        if batch:
            yield batch

    def _read(
        self, sentences: list[Words], state: BiLMState | None
    ) -> tuple[list[Tensor], BiLMState]:
        limit_threads_of_worker()
        device = self.bilm.device
        # Rows of the table of token vectors: <S>, </S>, then each distinct word.
        rows = {
            word: row for row, word in enumerate(dict.fromkeys(w for s in sentences for w in s), 2)
        }
        lengths = torch.tensor([len(sentence) + 2 for sentence in sentences])
        index = torch.zeros(len(sentences), int(lengths.max()), dtype=torch.int64)
        for row, sentence in zip(index, sentences, strict=True):
            row[1 : len(sentence) + 1] = torch.tensor([rows[word] for word in sentence])
            row[len(sentence) + 1] = 1
        tokens = self._encode(list(rows))
        layers, state = self.bilm.contextualize(tokens, index.to(device), lengths, state)
        # Copies, so that a short sentence does not keep the whole batch alive.
        return [layers[:, k, 1 : len(s) + 1].clone() for k, s in enumerate(sentences)], state

    def _encode(self, words: list[str]) -> Tensor:
        """Token vectors of the boundaries and of words. *Shape:* (2 + words, projection_dim)."""
        cache = self.token_cache
        spelled = [word for word in words if cache is None or word not in cache]
        spelling = self.bilm.spelling
        ids = np.concatenate([spelling.boundaries(), spelling.words(spelled)])
        blocks = torch.from_numpy(ids).to(self.bilm.device).split(CHAR_CNN_WORDS)
        read = torch.cat([self.bilm.encode_words(block) for block in blocks])
        if cache is None or len(spelled) == len(words):
            return read
        known = [word for word in words if word in cache]
        tokens = torch.cat([read, cache.lookup(known, read.device)])
        rows = {word: row for row, word in enumerate([*spelled, *known], 2)}
        return tokens[[0, 1, *(rows[word] for word in words)]]


def _checked(sentences: Iterable[Words]) -> list[Words]:
    result = list(sentences)
    for sentence in result:
        if isinstance(sentence, str) or not all(isinstance(word, str) for word in sentence):
            raise TypeError(
                f"Embedder got {reprlib.repr(sentence)} for a sentence, expected a list of words: "
                "embedder([['one', 'sentence'], ['another', 'one']])."
            )
    return result


def _pick(state: BiLMState, rows: list[int]) -> BiLMState:
    return BiLMState(*(type(s)(s.hidden[:, rows], s.cell[:, rows]) for s in state))


def _put(state: BiLMState, rows: list[int], new: BiLMState) -> BiLMState:
    at = torch.tensor(rows, device=state.forward.hidden.device)
    return BiLMState(
        *(
            type(old)(
                old.hidden.index_copy(1, at, fresh.hidden), old.cell.index_copy(1, at, fresh.cell)
            )
            for old, fresh in zip(state, new, strict=True)
        )
    )
