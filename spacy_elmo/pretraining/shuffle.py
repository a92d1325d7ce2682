"""Documents of a corpus, epoch after epoch, in an order that is random within a bounded buffer."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

from .corpus import Corpus, Document
from .errors import PretrainingError


class ShuffledDocuments(Iterator[Document]):
    """An endless iterator: every document exactly once an epoch, none of the next epoch before.

    The order of the files is drawn for each epoch; documents then pass through a buffer from which
    they leave at random. Long documents are cut at sentence ends, so that no text is out of
    proportion to the buffer or to the streams that are read side by side.

    buffer_words (int): Words that wait in the buffer: bounds memory.
    chunk_words (int): A document longer than this is cut.
    """

    def __init__(self, corpus: Corpus, *, buffer_words: int, chunk_words: int, seed: int) -> None:
        self.corpus = corpus
        self.buffer_words = buffer_words
        self.chunk_words = chunk_words
        self._random = np.random.default_rng(seed)
        self._buffer: list[Document] = []
        self._waiting = 0
        self.epoch = -1
        # Where reading stands: the files' order, the place in it, and the chunks taken of that file.
        self._order: list[int] = []
        self._place = 0
        self._taken = 0
        self._source: Iterator[Document] = iter(())
        self._next_epoch()

    def __next__(self) -> Document:
        while self._waiting < self.buffer_words:
            chunk = next(self._source, None)
            if chunk is None:
                break
            self._buffer.append(chunk)
            self._waiting += _words(chunk)
        if not self._buffer:
            self._next_epoch()
            return next(self)
        place = int(self._random.integers(len(self._buffer)))
        self._buffer[place], self._buffer[-1] = self._buffer[-1], self._buffer[place]
        chunk = self._buffer.pop()
        self._waiting -= _words(chunk)
        return chunk

    def state(self) -> dict[str, Any]:
        """Where the iterator stands, as JSON."""
        return {
            "files": [file.name for file in self.corpus.files],
            "epoch": self.epoch,
            "order": self._order,
            "place": self._place,
            "taken": self._taken,
            "buffer": self._buffer,
            "random": self._random.bit_generator.state,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go to where another iterator over the same files stood."""
        names = [file.name for file in self.corpus.files]
        if names != state["files"]:
            raise PretrainingError(
                f"The checkpoint was made on other files ({', '.join(state['files'][:5])} ...) than "
                f"paths.raw_text names ({', '.join(names[:5])} ...): resume on the same files."
            )
        self.epoch, self._order = state["epoch"], state["order"]
        self._buffer = list(state["buffer"])
        self._waiting = sum(map(_words, self._buffer))
        self._random.bit_generator.state = state["random"]
        self._place, self._taken = state["place"], state["taken"]
        self._source = self._chunks()

    def _next_epoch(self) -> None:
        self.epoch += 1
        self._order = self._random.permutation(len(self.corpus.files)).tolist()
        self._place = self._taken = 0
        self._source = self._chunks()

    def _chunks(self) -> Iterator[Document]:
        while self._place < len(self._order):
            file = self.corpus.files[self._order[self._place]]
            documents = self.corpus.documents(file)
            chunks = (chunk for document in documents for chunk in cut(document, self.chunk_words))
            for chunk in islice(chunks, self._taken, None):
                self._taken += 1
                yield chunk
            self._place += 1
            self._taken = 0


def cut(document: Document, chunk_words: int) -> Iterator[Document]:
    """Parts of a document of at most chunk_words words, or of one sentence."""
    chunk: Document = []
    words = 0
    for sentence in document:
        if chunk and words + len(sentence) > chunk_words:
            yield chunk
            chunk, words = [], 0
        chunk.append(sentence)
        words += len(sentence)
    if chunk:
        yield chunk


def _words(document: Document) -> int:
    return sum(map(len, document))
