import bz2
import gzip
import json
import lzma
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_elmo.pretraining.corpus import Corpus, find_files, raw_text, tokenized_text
from spacy_elmo.pretraining.errors import PretrainingError
from spacy_elmo.pretraining.shuffle import ShuffledDocuments, cut

TEXT = "One sentence .\nAnother one !\n\n\nÅ third , in a new document .\n"
DOCUMENTS = [
    [["One", "sentence", "."], ["Another", "one", "!"]],
    [["Å", "third", ",", "in", "a", "new", "document", "."]],
]


def write(path: Path, data: bytes) -> str:
    if path.suffix == ".gz":
        data = gzip.compress(data)
    elif path.suffix == ".bz2":
        data = bz2.compress(data)
    elif path.suffix == ".xz":
        data = lzma.compress(data)
    path.write_bytes(data)
    return str(path)


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.txt.bz2", "a.txt.xz", "a"])
def test_plain_and_compressed(tmp_path: Path, name: str) -> None:
    assert list(tokenized_text(write(tmp_path / name, TEXT.encode()))) == DOCUMENTS


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.jsonl.xz"])
def test_jsonl(tmp_path: Path, name: str) -> None:
    records = [{"text": "One sentence .\nAnother one !"}, {"tokens": DOCUMENTS[1][0], "id": 3}]
    lines = "\n".join(map(json.dumps, records))
    assert list(tokenized_text(write(tmp_path / name, lines.encode()))) == DOCUMENTS


def test_raw_text_is_tokenised_and_split(tmp_path: Path) -> None:
    text = "One sentence. Another one!\n\nÅ third, in a new document."
    assert list(raw_text(write(tmp_path / "a.txt", text.encode()), lang="en")) == DOCUMENTS


def test_line_ends_and_byte_order_mark(tmp_path: Path) -> None:
    data = "\ufeff" + TEXT.replace("\n", "\r\n")
    assert list(tokenized_text(write(tmp_path / "a.txt", data.encode()))) == DOCUMENTS


def test_patterns_find_files_once_and_sorted(tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt", "c.md"):
        write(tmp_path / name, b"x\n")
    found = find_files([str(tmp_path / "*.txt"), str(tmp_path / "a.*")])
    assert [path.name for path in found] == ["a.txt", "b.txt"]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.txt", b"good\nbad \xff\n", r"a\.txt, line 2 is not UTF-8 \(byte 0xff at offset 4"),
        ("a.txt", b"", r"a\.txt holds no words"),
        ("a.txt", b" \n\n\t\n", r"a\.txt holds no words"),
        ("a.jsonl", b'{"text": "x"}\n{"text', r"a\.jsonl, line 2 is not JSON"),
        ("a.jsonl", b'{"txt": "x"}\n', r'a\.jsonl, line 1 has neither "text"'),
        ("a.jsonl", b'{"tokens": [1]}\n', r'a\.jsonl, line 1 has neither "text"'),
        ("a.jsonl", b"[]\n", r'a\.jsonl, line 1 has neither "text"'),
    ],
)
def test_broken_files_are_named(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    with pytest.raises(PretrainingError, match=message):
        list(tokenized_text(write(tmp_path / name, data)))


@pytest.mark.parametrize("name", ["a.txt.gz", "a.txt.bz2", "a.txt.xz"])
def test_damaged_compression_is_named(tmp_path: Path, name: str) -> None:
    whole = Path(write(tmp_path / name, TEXT.encode() * 1000))
    whole.write_bytes(whole.read_bytes()[:-20])
    with pytest.raises(PretrainingError, match="cannot be decompressed"):
        list(tokenized_text(str(whole)))
    whole.write_bytes(b"not compressed at all")
    with pytest.raises(PretrainingError, match="cannot be decompressed"):
        list(tokenized_text(str(whole)))


def test_a_pattern_that_matches_nothing(tmp_path: Path) -> None:
    with pytest.raises(PretrainingError, match=r"nothing\*' matches no file"):
        tokenized_text(str(tmp_path / "nothing*"))
    with pytest.raises(PretrainingError, match="is a directory"):
        tokenized_text(str(tmp_path))


sentences = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=6)
texts = st.lists(st.lists(sentences, min_size=1, max_size=5), min_size=1, max_size=12)


def corpus_of(tmp_path: Path, documents: list, n_files: int) -> Corpus:
    for number in range(n_files):
        part = documents[number::n_files] or [[["x"]]]
        text = "\n\n".join("\n".join(" ".join(s) for s in d) for d in part)
        (tmp_path / f"{number}.txt").write_text(text, encoding="utf8")
    return tokenized_text(str(tmp_path / "*.txt"))


@given(
    documents=texts,
    n_files=st.integers(1, 3),
    buffer_words=st.integers(1, 40),
    chunk_words=st.integers(1, 12),
    stop=st.integers(0, 40),
)
@settings(max_examples=60, deadline=None)
def test_an_epoch_is_every_sentence_once_and_resumes(
    tmp_path_factory: pytest.TempPathFactory,
    documents: list,
    n_files: int,
    buffer_words: int,
    chunk_words: int,
    stop: int,
) -> None:
    corpus = corpus_of(tmp_path_factory.mktemp("corpus"), documents, n_files)
    expected = [chunk for document in corpus for chunk in cut(document, chunk_words)]

    def fresh(seed: int) -> ShuffledDocuments:
        return ShuffledDocuments(
            corpus, buffer_words=buffer_words, chunk_words=chunk_words, seed=seed
        )

    stream = fresh(0)
    for _ in range(3):
        epoch = [next(stream) for _ in expected]
        assert Counter(map(str, epoch)) == Counter(map(str, expected))
    whole, first, second = fresh(1), fresh(1), fresh(2)
    assert [next(whole) for _ in range(stop)] == [next(first) for _ in range(stop)]
    second.restore(json.loads(json.dumps(first.state())))
    assert [next(whole) for _ in range(50)] == [next(second) for _ in range(50)]


def test_the_order_differs_from_epoch_to_epoch_and_seed_to_seed(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, [[[str(n)]] for n in range(50)], 2)

    def epochs(seed: int) -> list[list]:
        stream = ShuffledDocuments(corpus, buffer_words=20, chunk_words=9, seed=seed)
        return [[next(stream) for _ in range(50)] for _ in range(2)]

    first, second = epochs(0)
    assert first != second
    assert epochs(0) == [first, second]
    assert epochs(1)[0] != first


def test_the_buffer_is_bounded(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, [[["a"] * 5] * 20 for _ in range(30)], 1)
    stream = ShuffledDocuments(corpus, buffer_words=60, chunk_words=20, seed=0)
    for _ in range(300):
        chunk = next(stream)
        assert sum(map(len, chunk)) <= 20
        waiting = sum(len(sentence) for chunk in stream.state()["buffer"] for sentence in chunk)
        assert waiting < 60 + 20


def test_other_files_are_not_resumed(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, [[["a"]], [["b"]]], 2)
    stream = ShuffledDocuments(corpus, buffer_words=9, chunk_words=9, seed=0)
    one = tokenized_text(str(tmp_path / "0.txt"))
    other = ShuffledDocuments(one, buffer_words=9, chunk_words=9, seed=0)
    with pytest.raises(PretrainingError, match="made on other files"):
        other.restore(stream.state())


@pytest.mark.parametrize(("limit", "lengths"), [(1, [2, 3, 4]), (5, [5, 4]), (9, [9])])
def test_long_documents_are_cut_at_sentence_ends(limit: int, lengths: list[int]) -> None:
    document = [["a"] * 2, ["b"] * 3, ["c"] * 4]
    chunks = list(cut(document, limit))
    assert [sum(map(len, chunk)) for chunk in chunks] == lengths
    assert [sentence for chunk in chunks for sentence in chunk] == document
