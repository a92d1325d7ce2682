"""Doc -> the spans of tokens that the biLM reads as one sequence, between `<S>` and `</S>`.

Span getters are instances, not closures, so that pipelines can be pickled.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from spacy.pipeline import Sentencizer
from spacy.tokens import Doc, Span

SpanGetter = Callable[[Sequence[Doc]], list[list[Span]]]
# As an extension's, so that spaCy says by name that merged Docs do not have it.
SPANS_KEY: Any = ("._.", "elmo_spans", None, None)
_RULE = Sentencizer()


def sentence_spans(parsed: bool = False) -> SpanGetter:
    """spacy-elmo.sentence_spans.v1: sentences, the Doc's own where it is annotated with them, else by
    spaCy's punctuation rule, which needs no other component and leaves the Doc as it is. A Doc that
    `elmo` has read keeps its sentences: what later components say of them changes no vectors.

    parsed (bool): Whether the sentences of a dependency parse count. A parser mostly stands behind,
        where training does not show its sentences and predictions would.
    """
    return SentenceSpans(parsed)


def strided_spans(window: int = 128, stride: int = 96) -> SpanGetter:
    """spacy-elmo.strided_spans.v1: windows of tokens, whatever the sentences; where they overlap, the
    vectors are averaged.

    window (int): Tokens of a span. stride (int): Tokens from one start to the next.
    """
    return StridedSpans(window, stride)


def doc_spans() -> SpanGetter:
    """spacy-elmo.doc_spans.v1: the whole Doc as one sequence."""
    return DocSpans()


@dataclass(frozen=True)
class SentenceSpans:
    parsed: bool = False

    def __call__(self, docs: Sequence[Doc]) -> list[list[Span]]:
        return [_between(doc, self._starts(doc)) for doc in docs]

    def remember(self, docs: Sequence[Doc]) -> None:
        """Let later readings of docs have the same spans; stored with the Docs."""
        for doc in docs:
            doc.user_data[SPANS_KEY] = [len(doc), *self._starts(doc)]

    def _starts(self, doc: Doc) -> list[int]:
        length, *starts = doc.user_data.get(SPANS_KEY, [None])
        # Else its tokens were merged or split.
        if length == len(doc):
            return starts
        is_parse = doc.has_annotation("DEP")
        if doc.has_annotation("SENT_START") and (self.parsed or not is_parse):
            return [sentence.start for sentence in doc.sents]
        return [i for i, is_start in enumerate(_RULE.predict([doc])[0]) if is_start]


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


def _between(doc: Doc, starts: list[int]) -> list[Span]:
    ends = [*starts[1:], len(doc)] if starts else []
    return [doc[start:end] for start, end in zip(starts, ends, strict=True)]
