import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_elmo.bilm.characters import encode_boundaries, encode_words

# Any code point, lone surrogates included, and words that are cut within a character.
WORDS = st.text(st.characters(), max_size=60) | st.sampled_from(
    ["", "👩‍👩‍👧‍👦" * 3, "é" * 24, "日" * 17]
)


def framed(inside: list[int], size: int) -> list[int]:
    kept = inside[: size - 2]
    return [258, *kept, 259] + [260] * (size - 2 - len(kept))


@settings(deadline=None)
@given(st.lists(WORDS, max_size=5), st.sampled_from([3, 20, 50]))
def test_ids_are_framed_bytes(words, size):
    ids = encode_words(words, size)
    assert ids.shape == (len(words), size)
    assert ids.tolist() == [framed(list(word.encode("utf8", "ignore")), size) for word in words]


@settings(deadline=None)
@given(WORDS)
def test_ids_of_a_word_decode_to_its_first_48_bytes(word):
    (ids,) = encode_words([word], 50)
    inside = ids[(ids < 256)].astype("uint8").tobytes()
    assert word.encode("utf8", "ignore").startswith(inside)
    assert len(inside) == min(48, len(word.encode("utf8", "ignore")))


@pytest.mark.parametrize(("n_bytes", "kept"), [(47, 47), (48, 48), (49, 48), (500, 48)])
def test_a_word_is_cut_after_48_bytes(n_bytes, kept):
    (ids,) = encode_words(["x" * n_bytes], 50)
    assert ids[kept + 1] == 259
    assert (ids == ord("x")).sum() == kept


def test_a_lone_surrogate_is_left_out():
    np.testing.assert_array_equal(encode_words(["a\ud800b"], 50), encode_words(["ab"], 50))


def test_sentence_boundaries_are_words_of_one_character():
    assert encode_boundaries(50).tolist() == [framed([256], 50), framed([257], 50)]


def test_a_word_that_looks_like_a_boundary_is_not_one():
    spelled = encode_words(["<S>", "</S>"], 50)
    assert not (spelled == encode_boundaries(50)).all(axis=1).any()
