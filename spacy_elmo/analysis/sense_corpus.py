"""Sentences whose words have senses, read from JSONL and drawn from it."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from spacy.language import Language
from spacy.tokens import Doc

from ..text_files import kind, numbered_lines
from .corpus import CorpusError

Word = tuple[str, str]  # lemma, part of speech


@dataclass(frozen=True)
class Annotation:
    """A token of a Doc, the word that it is, and the sense it has."""

    token: int
    word: Word
    sense: str


Sentences = Iterable[tuple[Doc, list[Annotation]]]


def read_senses(path: Path, nlp: Language) -> Iterator[tuple[Doc, list[Annotation]]]:
    """JSONL, a sentence a line: {"tokens": [...], "senses": [[index, lemma, part of speech,
    sense], ...]}.
    """
    if not path.is_file() or kind(path) != ".jsonl":
        raise CorpusError(
            f"'{path}' is not a .jsonl file, expected lines of "
            '{"tokens": [...], "senses": [[index, lemma, pos, sense], ...]}.'
        )
    for number, line in numbered_lines(path, CorpusError):
        try:
            entry = json.loads(line)
            doc = Doc(nlp.vocab, words=entry["tokens"])
            found = [Annotation(i, (lemma, pos), s) for i, lemma, pos, s in entry["senses"]]
            for annotation in found:
                doc[annotation.token]  # raises IndexError
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise CorpusError(
                f"Line {number} of '{path}' has no tokens with senses "
                f"({type(error).__name__}: {error})."
            ) from error
        yield doc, found


def draw_sentences(
    read: Callable[[], Sentences], max_tokens: int | None, seed: int
) -> Iterator[tuple[Doc, list[Annotation]]]:
    """About max_tokens of a corpus, evenly over it; None: all. read: Starts a fresh reading."""
    share = 1.0
    if max_tokens is not None:
        share = max_tokens / max(1, sum(len(doc) for doc, _ in read()))
    rng = np.random.default_rng(seed)
    return (pair for pair in read() if share >= 1 or rng.random() < share)
