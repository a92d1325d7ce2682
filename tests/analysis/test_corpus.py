"""The files that analyses read."""

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
import spacy
from spacy.tokens import DocBin

from spacy_elmo.analysis.corpus import CorpusError, read_docs

NLP = spacy.blank("en")
TEXT = "She can't play .\n\nThey play .\n"
CONLLU = """# text = Vámonos ya
1-2\tVámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tVamos\tir\tVERB\tV\tMood=Imp|Number=Plur\t0\troot\t_\t_
2\tnos\tnosotros\tPRON\tP\t_\t1\tobj\t_\tSpaceAfter=No
2.1\tgone\t_\t_\t_\t_\t_\t_\t_\t_
3\tya\tya\tADV\t_\t_\t1\tadvmod\t_\t_

1\tSí\tsí\tINTJ\tI\t_\t0\troot\t_\t_
"""


def words(path: Path, max_tokens: int | None = None) -> list[list[str]]:
    return [[token.text for token in doc] for doc in read_docs(path, NLP, max_tokens)]


@pytest.mark.parametrize(
    ("ending", "opener"), [("", open), (".gz", gzip.open), (".bz2", bz2.open), (".xz", lzma.open)]
)
def test_text_a_doc_a_line(tmp_path: Path, ending: str, opener: Callable[..., object]) -> None:
    path = tmp_path / f"text.txt{ending}"
    with opener(path, "wt", encoding="utf8") as file:  # type: ignore[attr-defined]
        file.write(TEXT)
    assert words(path) == [["She", "ca", "n't", "play", "."], ["They", "play", "."]]
    assert words(path, 5) == [["She", "ca", "n't", "play", "."]]


def test_jsonl_tokens_or_text(tmp_path: Path) -> None:
    path = tmp_path / "text.jsonl"
    lines = [{"tokens": ["can't", "play"], "senses": []}, {"text": "They play."}]
    path.write_text("\n".join(map(json.dumps, lines)))
    assert words(path) == [["can't", "play"], ["They", "play", "."]]


def test_docbin(tmp_path: Path) -> None:
    path = tmp_path / "text.spacy"
    DocBin(docs=[NLP("They play."), NLP("")]).to_disk(path)
    assert words(path) == [["They", "play", "."]]


def test_conllu_words_with_tags(tmp_path: Path) -> None:
    path = tmp_path / "text.conllu"
    path.write_text(CONLLU, encoding="utf8")
    first, second = read_docs(path, NLP)
    assert [token.text for token in first] == ["Vamos", "nos", "ya"]
    assert first.text == "Vamos nosya "
    assert [token.pos_ for token in first] == ["VERB", "PRON", "ADV"]
    assert [token.tag_ for token in first] == ["V", "P", ""]
    assert str(first[0].morph) == "Mood=Imp|Number=Plur"
    assert first[0].lemma_ == "ir"
    assert second.text == "Sí "


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("text.pdf", "x", r"ends in '\.pdf', expected \.txt"),
        ("text.jsonl", "{", r"text\.jsonl, line 1 is not JSON"),
        ("text.jsonl", '{"words": []}', 'neither "text" .* nor "tokens"'),
        ("text.jsonl", '{"tokens": ["a", 1]}', r"line 1 has neither .*a list of strings"),
        ("text.jsonl", "[1]", r"line 1 has neither .*a list of strings"),
        ("text.conllu", "1\tA\n", r"text.conllu.*Line 1 has 2 column\(s\).*expected the 10"),
        ("text.txt.xz", "not compressed", r"text\.txt\.xz cannot be decompressed"),
        ("text.txt.gz", "not compressed", r"text\.txt\.gz cannot be decompressed"),
        ("text.txt.bz2", "not compressed", r"text\.txt\.bz2 cannot be decompressed"),
        ("text.spacy", "not a DocBin", r"text.spacy' cannot be read"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(CorpusError, match=message):
        words(tmp_path / name)


def test_half_a_file_and_other_encodings_are_refused(tmp_path: Path) -> None:
    whole = gzip.compress(b"They play .\n" * 999)
    (tmp_path / "half.txt.gz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "latin.txt").write_bytes("café".encode("latin1"))
    with pytest.raises(CorpusError, match=r"half\.txt\.gz cannot be decompressed"):
        words(tmp_path / "half.txt.gz")
    with pytest.raises(CorpusError, match=r"latin\.txt, line 1 is not UTF-8 \(byte 0xe9"):
        words(tmp_path / "latin.txt")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="is no file"):
        words(tmp_path / "nothing.txt")
