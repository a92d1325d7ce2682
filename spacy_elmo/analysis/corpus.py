"""Text files -> Docs, one at a time, so that memory does not grow with the file."""

import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from spacy.language import Language
from spacy.tokens import Doc, DocBin

from ..text_files import kind, numbered_lines, tokens_or_text
from .conllu import read_conllu

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
    except (OSError, ValueError, zlib.error) as error:
        raise CorpusError(f"'{path}' cannot be read, is it whole? {error}") from error


def _read(path: Path, nlp: Language) -> Iterator[Doc]:
    if not path.is_file():
        raise CorpusError(f"'{path}' is no file, expected a text to analyse.")
    ending = kind(path)
    if ending == ".spacy":
        yield from DocBin().from_disk(path).get_docs(nlp.vocab)
        return
    if ending not in (".txt", ".jsonl", ".conllu"):
        raise CorpusError(
            f"'{path}' ends in '{ending}', expected .txt (a text a line), .jsonl, .conllu or .spacy, "
            "the first three also with .gz, .bz2 or .xz."
        )
    lines = numbered_lines(path, CorpusError)
    if ending == ".conllu":
        yield from read_conllu((line for _, line in lines), nlp.vocab)
        return
    for number, line in lines:
        text = line.strip()
        if not text:
            continue
        found = tokens_or_text(path, number, text, CorpusError) if ending == ".jsonl" else text
        yield nlp.make_doc(found) if isinstance(found, str) else Doc(nlp.vocab, words=found)
