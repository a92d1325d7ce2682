"""Held-out perplexity by the full softmax."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from .corpus import Document
from .objective import LanguageModel
from .vocabulary import Vocabulary
from .windows import TextWindows

# Changes nothing but speed and memory: each document has a stream to itself while it is read.
N_STREAMS, STEPS = 64, 20

# Where the LSTM states may become zero, in words. Carrying them from document to document would make
# the numbers depend on how documents are spread over streams.
RESETS = {
    "document": "each document starts from the zero state and its sentences carry the state on",
    "sentence": "each sentence starts from the zero state",
}


@dataclass(frozen=True)
class Perplexity:
    """Of a text. A sentence of n words is n + 1 predictions a direction: its words and a boundary.

    mean is the perplexity of both directions' mean log likelihood.
    """

    forward: float
    backward: float
    mean: float
    sentences: int
    tokens: int
    unknown: int
    """Tokens that are not in the vocabulary and are predicted as `<UNK>`."""
    vocabulary_size: int
    reset: str

    @property
    def oov_rate(self) -> float:
        return self.unknown / self.tokens

    @property
    def protocol(self) -> str:
        """In words, what the numbers mean."""
        return (
            f"Full softmax over {self.vocabulary_size} words, perplexity per prediction: the "
            f"{self.tokens} tokens and one boundary for each of the {self.sentences} sentences; "
            f"{self.unknown} tokens ({self.oov_rate:.2%}) are out of the vocabulary and count as "
            f"<UNK>; {RESETS[self.reset]}."
        )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def evaluate(
    model: LanguageModel,
    documents: Iterable[Document],
    vocabulary: Vocabulary,
    *,
    reset: str = "document",
) -> Perplexity:
    """Read a text once, in float32; the model is in evaluation mode meanwhile.

    reset: Where the LSTM states become zero, a key of RESETS.
    """
    counter = _Counted(documents, vocabulary)
    windows = TextWindows(iter(counter), vocabulary, n_streams=N_STREAMS, steps=STEPS, reset=reset)
    forward = backward = 0.0
    positions = 0
    training = model.training
    model.eval()
    try:
        state = model.bilm.zero_state(N_STREAMS)
        for window in windows:
            losses, state = model.score(window.to(model.bilm.device), state)
            forward += float(losses.forward)
            backward += float(losses.backward)
            positions += losses.positions
    finally:
        model.train(training)
    return Perplexity(
        forward=math.exp(forward / positions),
        backward=math.exp(backward / positions),
        mean=math.exp((forward + backward) / (2 * positions)),
        sentences=counter.sentences,
        tokens=counter.tokens,
        unknown=counter.unknown,
        vocabulary_size=len(vocabulary),
        reset=reset,
    )


class _Counted:
    """Documents, counted as they pass."""

    def __init__(self, documents: Iterable[Document], vocabulary: Vocabulary) -> None:
        self.documents = documents
        self.vocabulary = vocabulary
        self.sentences = self.tokens = self.unknown = 0

    def __iter__(self) -> Iterator[Document]:
        for document in self.documents:
            for sentence in document:
                self.sentences += 1
                self.tokens += len(sentence)
                self.unknown += sum(word not in self.vocabulary for word in sentence)
            yield document
