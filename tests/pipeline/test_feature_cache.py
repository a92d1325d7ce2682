"""Kept layers are those that the biLM makes, and it makes each once."""

import copy
import logging
import multiprocessing
import pickle

import numpy as np
import pytest
import spacy
from conftest import random_bilm
from pipelines import add_elmo, make_examples, make_nlp, train
from spacy.tokens import Doc
from spacy.training import Example

from spacy_elmo.bilm.embedder import Embedder
from spacy_elmo.bilm.formats import native
from spacy_elmo.layers.bilm_model import get_shim
from spacy_elmo.layers.disk_cache import DiskCache, disk_cache
from spacy_elmo.layers.feature_cache import MemoryCache, key_of, memory_cache

LAYERS = [
    np.random.default_rng(i).normal(size=(3, n, 8)).astype("f") for i, n in enumerate((4, 0, 7))
]
KEYS = [bytes([i] * 16) for i in range(len(LAYERS))]


@pytest.fixture(params=["memory", "disk"])
def make_cache(request, tmp_path):
    def make(max_mb=10, dtype="float32"):
        if request.param == "memory":
            return memory_cache(max_mb, dtype)
        return disk_cache(str(tmp_path / "cache"), max_mb, dtype)

    return make


@pytest.mark.parametrize(("dtype", "error"), [("float32", 0), ("float16", 2e-3)])
def test_what_was_put_is_got(make_cache, dtype, error):
    cache = make_cache(dtype=dtype)
    cache.open("one")
    assert cache.get(KEYS[0]) is None
    for key, layers in zip(KEYS, LAYERS, strict=True):
        cache.put(key, layers)
    for key, layers in zip(KEYS, LAYERS, strict=True):
        found = cache.get(key)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, layers, rtol=0, atol=error)


def test_what_is_got_can_be_changed_without_harm(make_cache):
    cache = make_cache()
    cache.open("one")
    mine = LAYERS[0].copy()
    cache.put(KEYS[0], mine)
    mine[...] = 0
    cache.get(KEYS[0])[...] = 0
    np.testing.assert_array_equal(cache.get(KEYS[0]), LAYERS[0])


def test_another_bilm_finds_nothing(make_cache):
    cache = make_cache()
    cache.open("one")
    cache.put(KEYS[0], LAYERS[0])
    cache.open("two")
    assert cache.get(KEYS[0]) is None


def test_no_more_is_kept_than_allowed_and_what_is_kept_stays(make_cache, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("spacy"), "propagate", True)
    cache = make_cache(max_mb=1)
    cache.open("one")
    layers = np.ones((3, 100, 128), dtype="f")  # 154 KB
    keys = [bytes([i] * 16) for i in range(20)]
    with caplog.at_level(logging.INFO, logger="spacy"):
        for key in keys:
            cache.put(key, layers)
    kept = [key for key in keys if cache.get(key) is not None]
    assert 3 <= len(kept) <= 6 and kept == keys[: len(kept)]
    assert [r.message for r in caplog.records] == [
        "ELMo's cache is full (1 MB): other layers are computed."
    ]


def test_a_copy_starts_empty(make_cache):
    cache = make_cache()
    cache.open("one")
    cache.put(KEYS[0], LAYERS[0])
    for other in (copy.deepcopy(cache), pickle.loads(pickle.dumps(cache))):
        assert type(other) is type(cache)
        other.open("two")
        assert other.get(KEYS[0]) is None
        assert (other.max_mb, other.dtype) == (cache.max_mb, cache.dtype)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_mb": 0}, "max_mb = 0, expected at least 1"),
        ({"dtype": "float64"}, "dtype = 'float64', expected 'float32' or 'float16'"),
    ],
)
def test_bad_settings_are_refused(make_cache, settings, message):
    with pytest.raises(ValueError, match=message):
        make_cache(**settings)


# On disk


def put_one(path, number):
    cache = DiskCache(path, 50, "float32")
    cache.open("one")
    for i in range(40):
        cache.put(bytes([i] * 16), np.full((3, 5, 8), i, dtype="f"))
        assert cache.get(bytes([i] * 16)).mean() == i


def test_two_processes_share_a_file(tmp_path):
    processes = [
        multiprocessing.get_context("spawn").Process(target=put_one, args=(str(tmp_path), i))
        for i in range(2)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(timeout=120)
    assert [process.exitcode for process in processes] == [0, 0]
    cache = DiskCache(str(tmp_path), 50, "float32")
    cache.open("one")
    assert [cache.get(bytes([i] * 16)).mean() for i in range(40)] == list(range(40))
    assert len(list(tmp_path.glob("*.sqlite3"))) == 1


def damage(file, how):
    data = bytearray(file.read_bytes())
    if how == "emptied":
        data.clear()
    elif how == "another file":
        data[:] = b"not a database" * 1000
    elif how == "cut":
        del data[len(data) // 2 :]
    elif how == "cut within a page":
        del data[100:]
    elif how == "overwritten":
        data[4096:] = b"\xff" * (len(data) - 4096)
    elif how == "one value changed":
        at = data.find(LAYERS[2].tobytes()[:40])
        assert at > 0
        data[at + 5] ^= 1
    file.write_bytes(data)


@pytest.mark.parametrize(
    "how",
    ["emptied", "another file", "cut", "cut within a page", "overwritten", "one value changed"],
)
def test_a_damaged_file_gives_nothing_wrong_and_is_made_anew(tmp_path, how):
    cache = DiskCache(str(tmp_path), 50, "float32")
    cache.open("one")
    for key, layers in zip(KEYS, LAYERS, strict=True):
        cache.put(key, layers)
    cache._database.close()
    (file,) = tmp_path.glob("*.sqlite3")
    damage(file, how)
    again = DiskCache(str(tmp_path), 50, "float32")
    again.open("one")
    for key, layers in zip(KEYS, LAYERS, strict=True):
        found = again.get(key)
        assert found is None or np.array_equal(found, layers)
    assert again.get(KEYS[2]) is None
    again.put(KEYS[2], LAYERS[2])
    np.testing.assert_array_equal(again.get(KEYS[2]), LAYERS[2])


def test_a_directory_that_cannot_be_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    cache = DiskCache(str(tmp_path / "file" / "cache"), 50, "float32")
    with pytest.raises(
        ValueError, match=r"cannot use .*file/cache.* give \[components.elmo.cache\] another"
    ):
        cache.open("one")


# In a pipeline


@pytest.fixture
def embedded(monkeypatch):
    """The sentences that the biLM reads."""
    read = []
    tensors = Embedder.tensors

    def spy(self, sentences):
        sentences = list(sentences)
        read.extend(sentences)
        return tensors(self, sentences)

    monkeypatch.setattr(Embedder, "tensors", spy)
    return read


def test_a_training_reads_a_text_once(bilm_dir, embedded):
    nlp = make_nlp(bilm_dir, ["tagger", "ner"])
    train(nlp)
    distinct = {tuple(sentence) for sentence in embedded}
    assert len(embedded) == len(distinct) == 4
    nlp.evaluate(make_examples(nlp))
    assert len(embedded) == 4


def test_scores_are_the_same_with_and_without(bilm_dir, tmp_path):
    disk = {"@misc": "spacy-elmo.disk_cache.v1", "path": str(tmp_path)}
    losses = []
    for cache in (None, {"@misc": "spacy-elmo.memory_cache.v1"}, disk, disk):
        nlp = make_nlp(bilm_dir, ["tagger"], cache=cache)
        losses.append(train(nlp, steps=6)["tagger"])
    np.testing.assert_allclose(losses, losses[0], rtol=1e-4)


def test_a_later_run_reads_the_file_of_an_earlier_one(bilm_dir, tmp_path, embedded):
    for _ in range(2):
        cache = {"@misc": "spacy-elmo.disk_cache.v1", "path": str(tmp_path)}
        train(make_nlp(bilm_dir, ["tagger"], cache=cache))
    assert len(embedded) == 4


@pytest.mark.parametrize("other", [{"precision": "bfloat16"}, {"carry_state": True}])
def test_a_run_of_other_settings_does_not_find_them(bilm_dir, tmp_path, other):
    found = []
    for settings in ({}, other):
        nlp = spacy.blank("en")
        cache = {"@misc": "spacy-elmo.disk_cache.v1", "path": str(tmp_path)}
        elmo = add_elmo(nlp, bilm_dir, cache=cache, **settings)
        example = Example.from_dict(nlp.make_doc("One is old . Two met Ann ."), {})
        nlp.initialize(lambda example=example: [example])
        found += elmo.predict([example.reference])
    assert np.abs(found[0] - found[1]).max() > 1e-5


def test_a_loaded_pipeline_keeps_nothing(bilm_dir, tmp_path, embedded):
    make_nlp(bilm_dir, ["tagger"]).to_disk(tmp_path)
    nlp = spacy.load(tmp_path)
    embedded.clear()
    for _ in range(2):
        nlp("Nothing is kept .")
    assert len(embedded) == 2


def test_a_trained_bilm_has_no_cache(bilm_dir):
    nlp = make_nlp(bilm_dir, ["tagger"], trainable=True)
    train(nlp)
    (doc,) = nlp.pipe(["Ann likes old London ."])
    (fresh,) = Embedder(get_shim(nlp.get_pipe("elmo").model).bilm)([[t.text for t in doc]])
    np.testing.assert_allclose(doc._.elmo.layers, fresh, atol=1e-5)


def test_other_weights_are_not_answered_from_the_cache(bilm_dir, tmp_path):
    nlp = make_nlp(bilm_dir, ["tagger"])
    train(nlp)
    elmo = nlp.get_pipe("elmo")
    (before,) = elmo.predict([nlp.make_doc("Ann likes old London .")])
    other = random_bilm(seed=5)
    native.write(other.config, other.state_dict(), tmp_path / "other")
    get_shim(elmo.model).from_disk(tmp_path / "other")
    (after,) = elmo.predict([nlp.make_doc("Ann likes old London .")])
    assert np.abs(before - after).max() > 0.01


def doc_of(words, starts=None):
    return Doc(spacy.blank("en").vocab, words=words, sent_starts=starts)


def test_texts_and_spans_are_told_apart():
    docs = [
        doc_of(["a", "b"]),
        doc_of(["b", "a"]),
        doc_of(["a"]),
        doc_of(["ab"]),
        doc_of(["a", "b", "a"]),
        doc_of(["a", " ", "b"]),
        doc_of([]),
    ]
    keys = [key_of(doc, [doc[:]] if len(doc) else []) for doc in docs]
    two = docs[0]
    keys += [key_of(two, [two[:1], two[1:]]), key_of(two, [two[:1]]), key_of(two, [])]
    assert len(set(keys)) == len(keys)
    assert key_of(doc_of(["a", "b"]), [two[:]]) == keys[0]


def test_it_says_once_where_layers_are_kept(bilm_dir, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("spacy"), "propagate", True)
    with caplog.at_level(logging.INFO, logger="spacy"):
        train(make_nlp(bilm_dir, ["tagger"]))
    said = [r.message for r in caplog.records if "ELMo" in r.message]
    assert said == ["ELMo's layers are kept in memory while training, up to 1000 MB."]


def test_what_is_computed_may_be_changed_by_its_reader(bilm_dir):
    """A component that changes doc._.elmo.layers in place changes this Doc alone."""
    nlp = spacy.blank("en")
    elmo = add_elmo(nlp, bilm_dir)
    nlp.initialize(lambda: [Example.from_dict(nlp.make_doc("a b"), {})])
    first = elmo.predict([nlp.make_doc("a b")])[0].copy()
    for _ in range(2):
        (layers,) = elmo.predict([nlp.make_doc("a b")])
        np.testing.assert_allclose(layers, first, atol=1e-6)
        layers[...] = 0


def test_memory_cache_is_the_default():
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo")
    assert isinstance(nlp.get_pipe("elmo").cache, MemoryCache)
