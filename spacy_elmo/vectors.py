"""`token.vector`, `span.vector` and `similarity` that mean ELMo.

Without these hooks spaCy would prefer static vectors where the vocabulary has them, and take the same
word for the same meaning: similarity 1, whatever the context. Hooks do not serialise (spaCy warns, W109):
a Doc that was stored, or comes from another process, has spaCy's own behaviour on top of `doc.tensor`.
"""

from typing import Any

from spacy.tokens import Doc, Span, Token
from thinc.api import get_array_module


def prefer_tensor(doc: Doc) -> None:
    """Make the vectors of doc, its spans and tokens those of doc.tensor."""
    for hooks, vector in (
        (doc.user_hooks, _doc_vector),
        (doc.user_span_hooks, _span_vector),
        (doc.user_token_hooks, _token_vector),
    ):
        hooks["vector"] = vector
        hooks["has_vector"] = _has_vector
        hooks["similarity"] = _similarity
    # Tokens compute theirs when asked; the hook of spans is broken in spaCy 3.8: it gives the vector.
    doc.user_hooks["vector_norm"] = _doc_norm


def _token_vector(token: Token) -> Any:
    return token.doc.tensor[token.i]


def _span_vector(span: Span) -> Any:
    return _mean(span.doc.tensor[span.start : span.end])


def _doc_vector(doc: Doc) -> Any:
    return _mean(doc.tensor)


def _mean(vectors: Any) -> Any:
    """Zero where there are no tokens."""
    return vectors.sum(axis=0) / max(1, len(vectors))


def _doc_norm(doc: Doc) -> float:
    """Of doc.tensor as it is now: spaCy would keep the first that was asked for."""
    return _norm(doc.vector)


def _norm(vector: Any) -> float:
    return float(get_array_module(vector).linalg.norm(vector))


def _has_vector(_: Doc | Span | Token) -> bool:
    return True


def _similarity(one: Doc | Span | Token, other: Doc | Span | Token) -> float:
    """Cosine; 0 where a vector is zero, as spaCy has it."""
    vectors = one.vector, other.vector
    norms = _norm(vectors[0]) * _norm(vectors[1])
    return float(get_array_module(vectors[0]).vdot(*vectors)) / norms if norms else 0.0
