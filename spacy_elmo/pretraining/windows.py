"""Documents -> windows of truncated back-propagation over parallel streams.

As in bilm-tf (`LMDataset`), a stream is sentence after sentence: the forward direction reads
`<S> w1 ... wn` and predicts `w1 ... wn </S>`, the backward direction reads the same sentences in the
same order, each reversed: `</S> wn ... w1` predicts `wn ... w1 <S>`. Windows cut through sentences;
the LSTM states that one window ends with are those that the next begins with.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .corpus import Document, Sentence
from .vocabulary import BEGIN_SENTENCE, END_SENTENCE, Vocabulary

# Rows of a window's table of token vectors; its words follow.
BEGIN_ROW, END_ROW, FIRST_WORD_ROW = 0, 1, 2
# Target of the positions that follow the end of a finite stream.
NO_TARGET = -1
RESETS = ("document", "sentence", "never")


class Direction(NamedTuple):
    """inputs (steps, streams): rows of the table; targets (steps, streams): vocabulary ids."""

    inputs: Tensor
    targets: Tensor


class TextWindow(NamedTuple):
    """A stretch of every stream.

    words: The distinct words, short ones first; their rows start at FIRST_WORD_ROW.
    resets: For each step the streams whose state becomes zero before it, or None.
    n_words: Words that the forward direction predicts, boundaries not counted, in all streams.
    """

    words: list[str]
    forward: Direction
    backward: Direction
    resets: list[Tensor | None]
    n_words: int

    def to(self, device: torch.device) -> "TextWindow":
        return self._replace(
            forward=Direction(*(t.to(device) for t in self.forward)),
            backward=Direction(*(t.to(device) for t in self.backward)),
            resets=[None if reset is None else reset.to(device) for reset in self.resets],
        )


@dataclass
class _Stream:
    """Sentences still to read, the current one first, and the position in it."""

    sentences: deque[Sentence] = field(default_factory=deque)
    position: int = 0


class TextWindows(Iterator[TextWindow]):
    """Read documents side by side; a stream that is through with one takes the next.

    reset: Where a stream's state becomes zero: at each "document", at each "sentence", or "never".
    mine (slice | None): The streams that this process gets; None: all. Every process reads all of the
        text, which is cheap, so that streams do not depend on how many processes share them.
    """

    def __init__(
        self,
        documents: Iterator[Document],
        vocabulary: Vocabulary,
        *,
        n_streams: int,
        steps: int,
        reset: str,
        mine: slice | None = None,
    ) -> None:
        self.documents = documents
        self.vocabulary = vocabulary
        self.steps = steps
        self.reset = reset
        self._streams = [_Stream() for _ in range(n_streams)]
        self._mine = range(n_streams)[mine or slice(None)]

    def __next__(self) -> TextWindow:
        size = (len(self._mine), self.steps)
        ahead = _Side(size, self.vocabulary, BEGIN_ROW, END_SENTENCE)
        behind = _Side(size, self.vocabulary, END_ROW, BEGIN_SENTENCE)
        resets: list[list[int]] = [[] for _ in range(self.steps)]
        running = False
        n_words = 0
        for number, stream in enumerate(self._streams):
            row = number - self._mine.start if number in self._mine else None
            step = 0
            while step < self.steps:
                fresh = not stream.sentences
                if fresh and not self._refill(stream):
                    break
                running = True
                sentence = stream.sentences[0]
                start = stream.position
                stop = min(start + self.steps - step, len(sentence) + 1)
                if row is not None:
                    begins = self.reset == "sentence" or (fresh and self.reset == "document")
                    if begins and start == 0:
                        resets[step].append(row)
                    span = (row, step, start, stop)
                    ahead.put(sentence, *span)
                    behind.put(sentence[::-1], *span)
                n_words += min(stop, len(sentence)) - start
                step += stop - start
                stream.position = stop
                if stop > len(sentence):
                    stream.sentences.popleft()
                    stream.position = 0
        if not running:
            raise StopIteration
        # Sorted, as the order of a set differs from process to process.
        words = sorted({*ahead.words(), *behind.words()}, key=lambda word: (len(word), word))
        rows = {word: row for row, word in enumerate(words, FIRST_WORD_ROW)}
        return TextWindow(
            words,
            ahead.direction(rows),
            behind.direction(rows),
            [torch.tensor(streams) if streams else None for streams in resets],
            n_words,
        )

    def state(self) -> list[dict[str, Any]]:
        """Where the streams stand, as JSON; the documents have a state of their own."""
        return [{"sentences": list(s.sentences), "position": s.position} for s in self._streams]

    def restore(self, state: list[dict[str, Any]]) -> None:
        self._streams = [_Stream(deque(s["sentences"]), s["position"]) for s in state]

    def _refill(self, stream: _Stream) -> bool:
        document = next(self.documents, None)
        if document is None:
            return False
        stream.sentences.extend(document)
        return True


class _Side:
    """One direction of a window that is being filled.

    first_row: Of the table, what stands before a sentence; last_target: what is predicted after it.
    """

    def __init__(
        self, size: tuple[int, int], vocabulary: Vocabulary, first_row: int, last_target: int
    ) -> None:
        self.inputs = np.full(size, first_row, dtype=np.int64)
        self.targets = np.full(size, NO_TARGET, dtype=np.int64)
        self.vocabulary = vocabulary
        self.last_target = last_target
        self._read: list[tuple[int, int, Sentence]] = []

    def put(self, sentence: Sentence, row: int, step: int, start: int, stop: int) -> None:
        """Fill in a sentence's positions start to stop; position 0 stands before its first word."""
        read = sentence[max(start - 1, 0) : stop - 1]
        self._read.append((row, step + (start == 0), read))
        predicted = sentence[start:stop]
        self.targets[row, step : step + len(predicted)] = self.vocabulary.ids(predicted)
        if stop > len(sentence):
            self.targets[row, step + len(predicted)] = self.last_target

    def words(self) -> Iterator[str]:
        return (word for _, _, read in self._read for word in read)

    def direction(self, rows: dict[str, int]) -> Direction:
        for row, step, read in self._read:
            self.inputs[row, step : step + len(read)] = [rows[word] for word in read]
        return Direction(_steps_first(self.inputs), _steps_first(self.targets))


def _steps_first(array: NDArray[np.int64]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array.T))
