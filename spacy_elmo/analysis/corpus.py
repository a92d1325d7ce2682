"""Text files -> Docs, one at a time, so that memory does not grow with the file."""

import bz2
import gzip
import json
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from spacy.language import Language
from spacy.tokens import Doc, DocBin

from .conllu import read_conllu

OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
# A fresh reading of a corpus; the arguments name it for a progress bar, with the Docs if known.
CorpusReading = Callable[[str, int | None], Iterable[Doc]]


class CorpusError(ValueError):
    """A file that cannot be read as a corpus; the message says what was expected."""


def read_docs(path: Path, nlp: Language, max_tokens: int | None = None) -> Iterator[Doc]:
    """Docs of a file, none of them empty; the pipeline's tokenizer is used where words are not given.

    path (Path): By its ending, before .gz, .bz2 or .xz: `.txt`, a Doc a line; `.jsonl`, a Doc a line,
        from "tokens" or "text"; `.conllu`, a Doc a sentence; `.spacy`, a DocBin (read whole).
    max_tokens (int): Stop after the Doc with which so many have been read.
    """
    n_tokens = 0
    with failures_named(path):
        for doc in _read(path, nlp):
            if len(doc):
                yield doc
                n_tokens += len(doc)
            if max_tokens is not None and n_tokens >= max_tokens:
                return


@contextmanager
def failures_named(path: Path) -> Iterator[None]:
    """What goes wrong with a file becomes a CorpusError that names it."""
    try:
        yield
    except CorpusError:
        raise
    except (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error) as error:
        raise CorpusError(f"'{path}' cannot be read, is it whole? {error}") from error


def open_text(path: Path) -> TextIO:
    """A possibly compressed UTF-8 file for reading."""
    opener = OPENERS.get(path.suffix, open)
    return opener(path, "rt", encoding="utf8")


def suffix(path: Path) -> str:
    """What a file is by its name, compression left out."""
    return (path.with_suffix("") if path.suffix in OPENERS else path).suffix


def _read(path: Path, nlp: Language) -> Iterator[Doc]:
    if not path.is_file():
        raise CorpusError(f"'{path}' is no file, expected a text to analyse.")
    kind = suffix(path)
    if kind == ".spacy":
        yield from DocBin().from_disk(path).get_docs(nlp.vocab)
        return
    if kind not in (".txt", ".jsonl", ".conllu"):
        raise CorpusError(
            f"'{path}' ends in '{kind}', expected .txt (a text a line), .jsonl, .conllu or .spacy, "
            "the first three also with .gz, .bz2 or .xz."
        )
    with open_text(path) as file:
        if kind == ".conllu":
            yield from read_conllu(file, nlp.vocab)
            return
        for number, line in enumerate(file, start=1):
            text = line.strip()
            if text:
                yield nlp.make_doc(text) if kind == ".txt" else _from_json(text, nlp, path, number)


def _from_json(line: str, nlp: Language, path: Path, number: int) -> Doc:
    try:
        entry = json.loads(line)
    except json.JSONDecodeError as error:
        raise CorpusError(f"Line {number} of '{path}' is no JSON: {error}.") from error
    tokens, running = (
        (entry.get("tokens"), entry.get("text")) if isinstance(entry, dict) else (None,) * 2
    )
    if isinstance(tokens, list) and all(isinstance(token, str) for token in tokens):
        return Doc(nlp.vocab, words=tokens)
    if isinstance(running, str):
        return nlp.make_doc(running)
    raise CorpusError(
        f'Line {number} of \'{path}\' has neither "tokens", a list of strings, nor "text", a string.'
    )
