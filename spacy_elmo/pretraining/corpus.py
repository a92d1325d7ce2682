"""Files of text -> documents of tokenised sentences, streamed.

Plain text and .jsonl, as they are or as .gz, .bz2 or .xz; UTF-8. A document is what stands between blank
lines, or one record of a .jsonl file: {"text": ...}, read like a file of text, or {"tokens": [...]}.
"""

import glob
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..text_files import kind, numbered_lines, tokens_or_text
from .errors import PretrainingError

Sentence = list[str]
Document = list[Sentence]
# A line of text -> its sentences.
Splitter = Callable[[str], Document]


@dataclass(frozen=True)
class Corpus:
    """Shards of text and how a line of them becomes sentences; files are listed, not opened."""

    files: tuple[Path, ...]
    split: Splitter

    def documents(self, file: Path) -> Iterator[Document]:
        """Read one of the files. Raises PretrainingError where it is broken or holds no words."""
        read = _records if kind(file) == ".jsonl" else _paragraphs
        empty = True
        for document in read(file, self.split):
            if sentences := [sentence for sentence in document if sentence]:
                empty = False
                yield sentences
        if empty:
            raise PretrainingError(
                f"{file} holds no words: leave it out, or see whether it was written whole."
            )

    def __iter__(self) -> Iterator[Document]:
        for file in self.files:
            yield from self.documents(file)


def tokenized_text(paths: str | Sequence[str]) -> Corpus:
    """Text of one sentence a line, its tokens separated by spaces (`spacy-elmo.TokenizedText.v1`).

    paths: A file, a pattern of files such as 'corpus/*.txt.xz', or a list of these.
    """
    return Corpus(find_files(paths), lambda line: [line.split()])


def raw_text(paths: str | Sequence[str], lang: str) -> Corpus:
    """Running text, split by spaCy's tokenizer and sentencizer (`spacy-elmo.RawText.v1`).

    lang: Code of the spaCy language whose tokenizer is taken, such as "en" or "xx".
    """
    import spacy

    nlp = spacy.blank(lang)
    nlp.add_pipe("sentencizer")

    def split(line: str) -> Document:
        doc = nlp(line)
        return [[token.text for token in s if not token.is_space] for s in doc.sents]

    return Corpus(find_files(paths), split)


def find_files(paths: str | Sequence[str]) -> tuple[Path, ...]:
    """Files that paths and patterns name, sorted. Raises PretrainingError where one names none."""
    found: set[Path] = set()
    for pattern in [paths] if isinstance(paths, str) else paths:
        files = [path for path in map(Path, glob.glob(pattern, recursive=True)) if path.is_file()]
        if not files:
            what = "is a directory" if Path(pattern).is_dir() else "matches no file"
            raise PretrainingError(
                f"'{pattern}' {what}: expected a file of text or a quoted pattern such as "
                "'corpus/*.txt.xz'."
            )
        found.update(files)
    if not found:
        raise PretrainingError("No files of text were given: set paths.raw_text.")
    return tuple(sorted(found))


def _paragraphs(file: Path, split: Splitter) -> Iterator[Document]:
    document: Document = []
    for _, line in numbered_lines(file, PretrainingError):
        if line.strip():
            document.extend(split(line))
        elif document:
            yield document
            document = []
    if document:
        yield document


def _records(file: Path, split: Splitter) -> Iterator[Document]:
    for number, line in numbered_lines(file, PretrainingError):
        if not line.strip():
            continue
        found = tokens_or_text(file, number, line, PretrainingError)
        if isinstance(found, list):
            yield [found]
        else:
            yield [s for part in found.splitlines() if part.strip() for s in split(part)]
