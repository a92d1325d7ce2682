"""`token.vector`, `span.vector` and `similarity` that mean ELMo.

spaCy reads them from `doc.tensor` by itself unless the vocabulary has static vectors, which it would
prefer; only then are hooks set, since hooks do not serialise (spaCy warns of them, W109).
"""

from typing import Any

from spacy.tokens import Doc, Span, Token
from thinc.api import get_array_module


def prefer_tensor(doc: Doc) -> None:
    """Make the vectors of doc, its spans and tokens those of doc.tensor."""
    if doc.vocab.vectors.size == 0:
        return
    for hooks, vector in (
        (doc.user_hooks, _doc_vector),
        (doc.user_span_hooks, _span_vector),
        (doc.user_token_hooks, _token_vector),
    ):
        hooks["vector"] = vector
        hooks["has_vector"] = _has_vector
        hooks["similarity"] = _similarity


def _token_vector(token: Token) -> Any:
    return token.doc.tensor[token.i]


def _span_vector(span: Span) -> Any:
    return span.doc.tensor[span.start : span.end].mean(axis=0)


def _doc_vector(doc: Doc) -> Any:
    return doc.tensor.mean(axis=0)


def _has_vector(_: Doc | Span | Token) -> bool:
    return True


def _similarity(one: Doc | Span | Token, other: Doc | Span | Token) -> float:
    """Cosine; 0 where a vector is zero, as spaCy has it."""
    norms = float(one.vector_norm) * float(other.vector_norm)
    return (
        float(get_array_module(one.vector).vdot(one.vector, other.vector)) / norms if norms else 0.0
    )
