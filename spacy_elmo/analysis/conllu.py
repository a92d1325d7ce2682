"""CoNLL-U -> Docs with tags and morphology, a sentence at a time (spaCy's converter reads it whole)."""

from collections.abc import Iterable, Iterator

from spacy.tokens import Doc
from spacy.vocab import Vocab


def read_conllu(lines: Iterable[str], vocab: Vocab) -> Iterator[Doc]:
    """Syntactic words, with `tag_`, `pos_`, `morph` and `lemma_`: ranges (1-2) and empty nodes (1.1) are
    left out. Raises ValueError where a line has not ten columns.
    """
    rows: list[list[str]] = []
    for number, line in enumerate(lines, start=1):
        line = line.rstrip("\r\n")
        if line and not line.startswith("#"):
            row = line.split("\t")
            if len(row) != 10:
                raise ValueError(
                    f"Line {number} has {len(row)} column(s) between tabs, expected the 10 of CoNLL-U."
                )
            if row[0].isdecimal():
                rows.append(row)
        elif not line and rows:
            yield _to_doc(rows, vocab)
            rows = []
    if rows:
        yield _to_doc(rows, vocab)


def _to_doc(rows: list[list[str]], vocab: Vocab) -> Doc:
    def column(index: int) -> list[str]:
        return ["" if row[index] == "_" else row[index] for row in rows]

    return Doc(
        vocab,
        words=[row[1] for row in rows],
        spaces=["SpaceAfter=No" not in row[9] for row in rows],
        lemmas=[row[2] for row in rows],
        pos=column(3),
        tags=column(4),
        morphs=column(5),
        sent_starts=[i == 0 for i in range(len(rows))],
    )
