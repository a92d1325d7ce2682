"""Lists of words -> arrays of layers: batching, distinct words once, memory bounded."""

import reprlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .engine import Engine
from .model import BiLM, BiLMState
from .plain_reader import PlainReader
from .precision import PRECISIONS, Precision
from .threads import limit_threads_of_worker
from .token_cache import TokenCache

Words = Sequence[str]
Kept = TypeVar("Kept")


class Embedder:
    """Embed sentences with a biLM.

    bilm (BiLM): Used where it is, on its device, with its current weights.
    batch_words (int): Words of a batch, padding and boundaries included; a longer sentence is a
        batch of its own. Bounds memory, does not change results.
    precision (Precision): Of the products with weights of the LSTMs and the highway layers; all else
        is float32. Not where autograd records, which is in full precision.
    kept_words (int): Distinct words whose token vectors are kept from call to call. Bounds memory.
    token_cache (TokenCache | None): Words that the char CNN need not read; None: those that were read
        with the biLM, if any. It is of the weights that it was computed with: when they change, it is
        dropped.
    """

    def __init__(
        self,
        bilm: BiLM,
        *,
        batch_words: int = 4096,
        precision: Precision = "float32",
        kept_words: int = 50_000,
        token_cache: TokenCache | None = None,
    ) -> None:
        if batch_words < 1:
            raise ValueError(f"batch_words is {batch_words}, expected at least 1.")
        if precision not in PRECISIONS:
            raise ValueError(
                f"precision is {precision!r}, expected one of {', '.join(PRECISIONS)}."
            )
        self.bilm = bilm
        self.batch_words = batch_words
        self.precision = precision
        self.kept_words = kept_words
        self.token_cache = token_cache
        self._plain = PlainReader(bilm)
        self._engine: Engine | None = None
        self._stamp: list[tuple[int, int]] | None = None

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
        reader = self._reader()
        # Side by side as many documents as their longest sentences leave room for.
        for group in self._batches([max(doc, key=len, default=()) for doc in todo]):
            state = self.bilm.zero_state(len(group))
            for turn in range(max(len(todo[i]) for i in group)):
                rows = [row for row, i in enumerate(group) if turn < len(todo[i])]
                layers, after = reader.carry(
                    [todo[group[r]][turn] for r in rows], _pick(state, rows)
                )
                state = _put(state, rows, after)
                for row, result in zip(rows, layers, strict=True):
                    results[group[row]].append(result)
        return results

    def _embed(self, sentences: Iterable[Words], keep: Callable[[Tensor], Kept]) -> list[Kept]:
        todo = _checked(sentences)
        results: dict[int, Kept] = {}
        reader = self._reader()
        for batch in self._batches(todo):
            layers = reader.read([todo[i] for i in batch])
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

    def weights_changed(self) -> None:
        """Tell of changes that PyTorch does not count, such as those through an array's memory."""
        self._drop_engine([])

    def _drop_engine(self, stamp: list[tuple[int, int]]) -> None:
        self._engine, self._stamp = None, stamp
        self.token_cache = self.bilm.token_cache = None

    def _reader(self) -> Engine | PlainReader:
        limit_threads_of_worker()
        weights = list(self.bilm.parameters())
        if torch.is_grad_enabled() and any(weight.requires_grad for weight in weights):
            return self._plain
        stamp = [(weight.data_ptr(), weight._version) for weight in weights]
        if self._stamp not in (None, stamp):
            # They are being trained, and will change again before packing them has paid.
            self._drop_engine(stamp)
            return self._plain
        if self._engine is None:
            cache = self.token_cache or self.bilm.token_cache
            self._engine = Engine(self.bilm, self.precision, self.kept_words, cache)
        self._stamp = stamp
        return self._engine


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
