from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_elmo.pretraining.errors import PretrainingError
from spacy_elmo.pretraining.vocabulary import SPECIAL, UNKNOWN, Vocabulary, count

DOCUMENTS = [[["b", "a", "a"], ["c"]], [["a", "b", "d", "<UNK>"]]]


def test_counts_floor_and_order() -> None:
    vocabulary, counts = count(DOCUMENTS, min_count=2, max_size=100)
    assert vocabulary.words == (*SPECIAL, "a", "b")
    assert (counts.sentences, counts.tokens, counts.types, counts.known) == (3, 8, 5, 5)
    assert counts.coverage == 5 / 8
    assert counts.positions == 11
    assert vocabulary.ids(["a", "b", "c", "<UNK>", "<S>"]) == [3, 4, UNKNOWN, UNKNOWN, UNKNOWN]
    assert "a" in vocabulary
    assert "<S>" not in vocabulary


def test_the_cap_counts_the_special_words_and_ties_are_alphabetical() -> None:
    vocabulary, counts = count(DOCUMENTS, min_count=1, max_size=6)
    assert vocabulary.words == (*SPECIAL, "a", "b", "c")
    assert counts.known == 6


@given(st.lists(st.lists(st.text("abcdefg", min_size=1, max_size=2), min_size=1), min_size=1))
def test_against_a_count_in_plain_lines(sentences: list[list[str]]) -> None:
    vocabulary, counts = count([sentences], min_count=1, max_size=8)
    plain = Counter(word for sentence in sentences for word in sentence)
    expected = sorted(plain, key=lambda word: (-plain[word], word))[:5]
    assert list(vocabulary.words[3:]) == expected
    assert counts.known == sum(plain[word] for word in expected)


def test_saved_and_read_again(tmp_path: Path) -> None:
    vocabulary = Vocabulary(["a", "é", "\u2028", "\x85"])
    vocabulary.write(tmp_path / "vocab.txt")
    assert Vocabulary.read(tmp_path / "vocab.txt").words == vocabulary.words


def test_no_word_is_frequent_enough() -> None:
    with pytest.raises(PretrainingError, match="No word occurs 9 times in 8 tokens: lower"):
        count(DOCUMENTS, min_count=9, max_size=100)


def test_a_file_that_is_no_vocabulary(tmp_path: Path) -> None:
    with pytest.raises(PretrainingError, match=r"vocab\.txt cannot be read"):
        Vocabulary.read(tmp_path / "vocab.txt")
    (tmp_path / "vocab.txt").write_text("a\nb\n")
    with pytest.raises(PretrainingError, match=r"does not begin with the lines <S>"):
        Vocabulary.read(tmp_path / "vocab.txt")
