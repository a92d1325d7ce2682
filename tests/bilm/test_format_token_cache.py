"""Layout 5: token vectors that bilm-tf computed for a vocabulary."""

import copy
import json
import re
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
import safetensors.torch
import torch
from references import HERE, SENTENCES, assert_vectors, unpack_bilm_tf

from spacy_elmo.bilm.conversion import convert
from spacy_elmo.bilm.embedder import Embedder
from spacy_elmo.bilm.errors import BiLMError
from spacy_elmo.bilm.formats.token_embeddings import read_token_cache
from spacy_elmo.bilm.loading import find, load_bilm
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


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    """A biLM's directory with the token vectors and their vocabulary in it."""
    unpack_bilm_tf("published", tmp_path / "beside")
    shutil.copy(VECTORS, tmp_path / "beside" / "tokens.hdf5")
    shutil.copy(WORDS, tmp_path / "beside" / "words.txt")
    (tmp_path / "beside" / "vocab.txt").write_text("<S>\n</S>\n<UNK>\n")
    return tmp_path / "beside"


def zipped(place: Path) -> Path:
    return Path(shutil.make_archive(str(place.with_suffix("")), "zip", place))


@pytest.mark.parametrize("packed", [False, True])
def test_beside_a_bilm_they_are_read_with_it_and_used(
    beside: Path, tmp_path: Path, encoded: list[int], packed: bool
) -> None:
    layers = unpack_bilm_tf("published", tmp_path / "again")
    bilm = load_bilm(zipped(beside) if packed else beside)
    assert bilm.token_cache is not None
    words = bilm.token_cache.words
    assert words == WORDS.read_text(encoding="utf8").split("\n")[2:-1]
    embedder = Embedder(bilm)
    embedder([words])
    # The two boundaries alone.
    assert encoded == [2]
    for ours, theirs in zip(embedder(SENTENCES), layers, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5)


def test_they_stay_with_the_bilm_in_our_layout(beside: Path, tmp_path: Path) -> None:
    notes = convert(find(beside), tmp_path / "native", "native")
    assert notes == ["Kept the token vectors of 10 words."]
    ours, theirs = load_bilm(tmp_path / "native").token_cache, load_bilm(beside).token_cache
    assert ours is not None and theirs is not None and ours.words == theirs.words
    cpu = torch.device("cpu")
    assert torch.equal(ours.lookup(ours.words, cpu), theirs.lookup(ours.words, cpu))
    assert "left out" in convert(find(beside), tmp_path / "hdf5", "hdf5")[0]


def test_changed_weights_drop_them(beside: Path) -> None:
    bilm = load_bilm(beside)
    assert bilm.token_cache is not None
    word = bilm.token_cache.words[0]
    used, unused = Embedder(bilm), Embedder(bilm)
    (before,) = used([[word]])
    with torch.no_grad():
        bilm.token_encoder.projection.bias.add_(1)
    assert bilm.token_cache is None
    for embedder in (unused, used, used, Embedder(bilm)):
        np.testing.assert_allclose(embedder([[word]])[0][0], before[0] + 1, atol=1e-5)


def test_another_device_or_type_keeps_them(beside: Path) -> None:
    bilm = load_bilm(beside)
    assert bilm.double().token_cache is not None
    assert copy.deepcopy(bilm).token_cache is not None


def test_vectors_of_other_weights_are_refused(beside: Path) -> None:
    with h5py.File(beside / "model.hdf5", "a") as file:
        file["CNN_proj/b_proj"][...] += 1
    message = refused(beside)
    assert f"{beside}: the token vector of " in message and "differs by 1 from the one" in message


def test_vectors_without_one_vocabulary_are_refused(beside: Path) -> None:
    shutil.copy(beside / "words.txt", beside / "more.txt")
    expected = "of 12 words, expected one .txt beside it with a line for each, found"
    assert f"{expected} more.txt, words.txt: put" in refused(beside)
    for name in ("more.txt", "words.txt"):
        (beside / name).unlink()
    assert f"{expected} vocab.txt: put" in refused(beside)
    shutil.copy(VECTORS, beside / "more.hdf5")
    assert "of several vocabularies (more.hdf5, tokens.hdf5)" in refused(beside)


@pytest.mark.parametrize("damage", ["cut", "words", "no words", "nan", "int8", "shape"])
def test_damage_in_our_layout_is_named(beside: Path, tmp_path: Path, damage: str) -> None:
    convert(find(beside), tmp_path / "native", "native")
    path = tmp_path / "native" / "token_cache.safetensors"
    vectors = safetensors.torch.load_file(path)["vectors"].clone()
    words = {"words": json.dumps(list("abcdefghij"))}
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-9])
    elif damage.endswith("words"):
        safetensors.torch.save_file(
            {"vectors": vectors}, path, {"words": "[]"} if damage == "words" else None
        )
    else:
        change = {"nan": vectors * np.nan, "int8": vectors.to(torch.int8), "shape": vectors[:, :3]}
        safetensors.torch.save_file({"vectors": change[damage].contiguous()}, path, words)
    assert str(path) in refused(path.parent)


def refused(place: Path) -> str:
    """What is said, in one sentence."""
    with pytest.raises(BiLMError) as error:
        load_bilm(place)
    message = str(error.value)
    assert message.endswith(".") and not re.search(r"\n|\.\s", message.replace(".txt ", "")), (
        message
    )
    return message


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
