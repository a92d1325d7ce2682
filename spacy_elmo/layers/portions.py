"""What is read at once: Docs together, and parts of a long one, of at most so many words."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from spacy.tokens import Doc, Span

Item = TypeVar("Item")


def portions(
    items: Iterable[Item], length_of: Callable[[Item], int], words: int, most: int | None = None
) -> Iterator[list[Item]]:
    """Items in their order, at most so many, together no longer than words; a longer one by itself."""
    portion: list[Item] = []
    length = 0
    for item in items:
        if portion and (length + length_of(item) > words or len(portion) == most):
            yield portion
            portion, length = [], 0
        portion.append(item)
        length += length_of(item)
    if portion:
        yield portion


def parts(doc: Doc, spans: Sequence[Span], words: int) -> Iterator[tuple[int, int, list[Span]]]:
    """Start and end of parts that cover doc, no longer than words, and the spans in each; longer where
    spans overlap or are.
    """
    start = end = 0
    inside: list[Span] = []
    for span in sorted(spans, key=lambda span: span.start):
        if inside and span.start >= end and span.end - start > words:
            yield start, span.start, inside
            start, inside = span.start, []
        inside.append(span)
        end = max(end, span.end)
    yield start, len(doc), inside
