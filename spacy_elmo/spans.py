"""Doc -> the spans of tokens that the biLM reads as one sequence, between `<S>` and `</S>`.

Span getters are instances, not closures, so that pipelines can be pickled.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from spacy.pipeline import Sentencizer
from spacy.tokens import Doc, Span

SpanGetter = Callable[[Sequence[Doc]], list[list[Span]]]


def sentence_spans() -> SpanGetter:
    """spacy-elmo.sentence_spans.v1: sentences, the Doc's own where it is annotated with them, else by
    spaCy's punctuation rule, which needs no other component and leaves the Doc as it is.
    """
    return SentenceSpans()


def strided_spans(window: int = 128, stride: int = 96) -> SpanGetter:
    """spacy-elmo.strided_spans.v1: windows of tokens, whatever the sentences; where they overlap, the
    vectors are averaged.

    window (int): Tokens of a span. stride (int): Tokens from one start to the next.
    """
    return StridedSpans(window, stride)


def doc_spans() -> SpanGetter:
    """spacy-elmo.doc_spans.v1: the whole Doc as one sequence."""
    return DocSpans()


class SentenceSpans:
    def __call__(self, docs: Sequence[Doc]) -> list[list[Span]]:
        sentencizer = Sentencizer()
        return [
            list(doc.sents) if doc.has_annotation("SENT_START") else list(_split(doc, sentencizer))
            for doc in docs
        ]


@dataclass(frozen=True)
class StridedSpans:
    window: int
    stride: int

    def __post_init__(self) -> None:
        if not 1 <= self.stride <= self.window:
            raise ValueError(
                f"strided_spans has window = {self.window} and stride = {self.stride}, "
                "expected 1 <= stride <= window."
            )

    def __call__(self, docs: Sequence[Doc]) -> list[list[Span]]:
        return [[doc[start:end] for start, end in self._windows(len(doc))] for doc in docs]

    def _windows(self, length: int) -> Iterator[tuple[int, int]]:
        for start in range(0, length, self.stride):
            yield start, min(start + self.window, length)
            if start + self.window >= length:
                break


class DocSpans:
    def __call__(self, docs: Sequence[Doc]) -> list[list[Span]]:
        return [[doc[:]] if len(doc) else [] for doc in docs]


def _split(doc: Doc, sentencizer: Sentencizer) -> Iterator[Span]:
    starts = [i for i, is_start in enumerate(sentencizer.predict([doc])[0]) if is_start]
    for start, end in zip(starts, [*starts[1:], len(doc)], strict=True):
        yield doc[start:end]
