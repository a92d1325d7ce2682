"""Layout 5: token vectors that bilm-tf computed for a vocabulary."""

import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from references import HERE, SENTENCES, assert_vectors, unpack_bilm_tf

from spacy_elmo.bilm.embedder import Embedder
from spacy_elmo.bilm.errors import BiLMError
from spacy_elmo.bilm.formats.token_embeddings import read_token_cache
from spacy_elmo.bilm.loading import load_bilm
from spacy_elmo.bilm.model import BiLM
from spacy_elmo.bilm.token_cache import TokenCache, compute_token_cache

VECTORS, WORDS = HERE / "bilm_tf_tokens.hdf5", HERE / "bilm_tf_tokens.txt"


@pytest.fixture
def published(tmp_path: Path) -> BiLM:
    unpack_bilm_tf("published", tmp_path / "model")
    return load_bilm(tmp_path / "model")


def test_vectors_of_words_are_bilm_tfs(published: BiLM) -> None:
    cache = read_token_cache(VECTORS, WORDS, published.config)
    words = WORDS.read_text(encoding="utf8").split("\n")[2:-1]
    assert len(cache) == len(words) == 10 and "<S>" not in cache
    ours = compute_token_cache(published, words)
    cpu = torch.device("cpu")
    np.testing.assert_allclose(cache.lookup(words, cpu), ours.lookup(words, cpu), atol=1e-5)


def test_sentences_are_the_same_with_the_cache(published: BiLM, tmp_path: Path) -> None:
    layers = unpack_bilm_tf("published", tmp_path / "again")
    cache = read_token_cache(str(VECTORS), str(WORDS), published.config)
    results = Embedder(published, token_cache=cache)(SENTENCES)
    for ours, theirs in zip(results, layers, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5)
    assert_vectors(published, layers, atol=1e-5)


def test_the_cache_is_used_and_other_words_are_spelled(published: BiLM) -> None:
    cache = TokenCache(["the", "a"], torch.full((2, 6), 7.0))
    sentences = [["x", "a", "y", "the", "a"], ["the"], []]
    plain, cached = (
        Embedder(published)(sentences),
        Embedder(published, token_cache=cache)(sentences),
    )
    assert (cached[0][0, [1, 3, 4]] == 7).all() and (cached[1][0] == 7).all()
    np.testing.assert_allclose(cached[0][0, [0, 2]], plain[0][0, [0, 2]], atol=1e-5)
    assert cached[2].shape == plain[2].shape


def test_of_a_word_that_stands_twice_the_last_counts() -> None:
    cache = TokenCache(["a", "b", "a"], torch.arange(3.0)[:, None])
    assert cache.lookup(["a", "b"], torch.device("cpu")).tolist() == [[2.0], [1.0]]
    assert len(cache) == 2 and "a" in cache and "c" not in cache
    with pytest.raises(ValueError, match="2 words have 1 vectors"):
        TokenCache(["a", "b"], torch.zeros(1, 1))


def test_an_empty_vocabulary(published: BiLM) -> None:
    assert len(compute_token_cache(published, [])) == 0


def test_files_that_do_not_fit_are_refused(published: BiLM, tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("one\ntwo\n")
    with pytest.raises(BiLMError, match=r"'embedding' is \(12, 6\) of float32, expected \(2, 6\)"):
        read_token_cache(VECTORS, words, published.config)
    vectors = Path(shutil.copy(VECTORS, tmp_path / "vectors.hdf5"))
    with h5py.File(vectors, "a") as file:
        file["embedding"][3, 3] = np.nan
    with pytest.raises(BiLMError, match="'embedding' holds NaN or infinite values"):
        read_token_cache(vectors, WORDS, published.config)
    with pytest.raises(BiLMError, match="lacks the dataset 'embedding'"):
        read_token_cache(tmp_path / "model" / "model.hdf5", WORDS, published.config)
    vectors.write_bytes(vectors.read_bytes()[:500])
    with pytest.raises(BiLMError, match="cannot be read as HDF5"):
        read_token_cache(vectors, WORDS, published.config)
    with pytest.raises(BiLMError, match=r"none\.txt cannot be read"):
        read_token_cache(VECTORS, tmp_path / "none.txt", published.config)
