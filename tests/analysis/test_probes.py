"""Probes find what is there, and no more."""

import numpy as np
import pytest
from spacy.language import Language
from spacy.tokens import Doc

pytest.importorskip("sklearn")

from spacy_elmo.analysis.labels import label_getter, labelled_vectors
from spacy_elmo.analysis.layers import layer_reader
from spacy_elmo.analysis.probes import (
    LabelledVectors,
    control_labels,
    learn_mix,
    most_frequent,
    probe,
)

RNG = np.random.default_rng(0)


def planted(n: int, known_at: int = 1) -> LabelledVectors:
    """Three layers of noise, of which one shows the label; each word has any label."""
    labels = RNG.choice(["A", "B", "C"], size=n)
    words = RNG.choice([f"w{i}" for i in range(20)], size=n)
    layers = RNG.normal(size=(3, n, 10)).astype("f")
    layers[known_at] += 4 * np.eye(10)[np.searchsorted(["A", "B", "C"], labels)]
    return LabelledVectors(layers, words.tolist(), labels.tolist())


def test_the_layer_that_knows_is_found() -> None:
    study = probe(planted(600), planted(300))
    rows = {row.name: row for row in study.rows}
    assert list(rows) == ["layer 0", "layer 1", "layer 2", "uniform mix", "learned mix"]
    assert rows["layer 1"].accuracy > 0.95
    assert max(rows["layer 0"].accuracy, rows["layer 2"].accuracy) < 0.5
    assert study.mix.argmax() == 1 and study.mix[1] > 0.5
    assert rows["learned mix"].accuracy >= rows["uniform mix"].accuracy
    assert rows["layer 1"].control < 0.6 and rows["layer 1"].selectivity > 0.4
    assert np.isnan(rows["layer 1"].unseen) and rows["layer 1"].seen == rows["layer 1"].accuracy


def test_memorising_types_is_not_selective() -> None:
    """Vectors that tell the word and nothing else solve the control task as well as the task."""
    words = RNG.choice([f"w{i}" for i in range(12)], size=500).tolist()
    of_word = {f"w{i}": "ABC"[i % 3] for i in range(12)}
    one_hot = np.stack([np.eye(12)[int(word[1:])] for word in words])[None].astype("f")
    vectors = LabelledVectors(one_hot, words, [of_word[word] for word in words])
    study = probe(vectors, vectors)
    for row in study.rows:
        assert row.accuracy == pytest.approx(1) and row.control == pytest.approx(1)
        assert row.selectivity == pytest.approx(0)
    assert study.by_word == 1


def test_seen_and_unseen_words_apart() -> None:
    train, test = planted(400), planted(200)
    words = [f"new{i}" if i % 4 == 0 else word for i, word in enumerate(test.words)]
    row = probe(train, LabelledVectors(test.layers, words, test.labels)).rows[1]
    assert row.accuracy == pytest.approx(0.75 * row.seen + 0.25 * row.unseen)


def test_control_labels_are_one_a_type_and_distributed_as_labels_are() -> None:
    words = [f"w{i}" for i in range(2000)] * 2
    labels = ["A"] * 3000 + ["B"] * 1000
    vectors = LabelledVectors(np.zeros((1, 4000, 2)), words, labels)
    train, test = control_labels(vectors, vectors, seed=0)
    assert train[:2000] == train[2000:] == test[:2000]
    assert train.count("A") / 4000 == pytest.approx(0.75, abs=0.04)
    assert control_labels(vectors, vectors, seed=1)[0] != train


def test_mix_is_seeded() -> None:
    vectors = planted(200)
    np.testing.assert_array_equal(learn_mix(vectors, 3, steps=20), learn_mix(vectors, 3, steps=20))


def test_baselines_count() -> None:
    layers = np.zeros((1, 4, 2), dtype="f")
    train = LabelledVectors(layers, ["a", "a", "b", "b"], ["X", "X", "Y", "X"])
    test = LabelledVectors(layers, ["a", "b", "c", "c"], ["X", "X", "X", "Y"])
    study = probe(train, test)
    assert (study.majority, study.by_word) == (0.75, 0.75)  # b: X and Y tie, X is first
    assert most_frequent(["Y", "X", "X", "Y"]) == "X"


def test_one_label_is_refused() -> None:
    vectors = LabelledVectors(np.zeros((1, 2, 2)), ["a", "b"], ["X", "X"])
    with pytest.raises(ValueError, match=r"1 different label\(s\)"):
        probe(vectors, vectors)


def annotated(nlp: Language, n_docs: int) -> list[Doc]:
    return [
        Doc(nlp.vocab, ["a", "dogs", "."], tags=["DT", f"N{i}", ""], morphs=["", "Number=Plur", ""])
        for i in range(n_docs)
    ]


def test_labels_of_tokens(nlp: Language) -> None:
    (doc,) = annotated(nlp, 1)
    assert [label_getter("tag")(token) for token in doc] == ["DT", "N0", ""]
    assert [label_getter("morph")(token) for token in doc] == ["none", "Number=Plur", "none"]
    assert [label_getter("morph:Number")(token) for token in doc] == ["none", "Plur", "none"]
    assert [label_getter("pos")(token) for token in doc] == ["", "", ""]
    assert label_getter("morph")(nlp.make_doc("a")[0]) == ""
    with pytest.raises(ValueError, match="no label 'ner', expected 'tag'"):
        label_getter("ner")


def test_vectors_are_drawn_evenly_and_bounded(nlp: Language) -> None:
    def draw(seed: int, max_words: int = 60) -> LabelledVectors:
        return labelled_vectors(
            layer_reader(nlp),
            lambda what, total: annotated(nlp, 200),
            label_getter("tag"),
            max_words=max_words,
            seed=seed,
            what="to train",
        )

    vectors = draw(0)
    assert len(vectors) == len(vectors.words) == vectors.layers.shape[1] == 60
    drawn = [int(label[1:]) for label in vectors.labels if label != "DT"]
    assert drawn[-1] > 120  # from the end of the corpus as well
    assert draw(0).labels == vectors.labels != draw(1).labels
    everything = draw(0, 1000)
    assert len(everything) == 400
    (first,) = nlp.get_pipe("elmo").predict(annotated(nlp, 1))  # type: ignore[attr-defined]
    np.testing.assert_allclose(everything.layers[:, :2], first[:, :2], atol=1e-5)
    with pytest.raises(ValueError, match="no word with the label"):
        labelled_vectors(
            layer_reader(nlp),
            lambda *_: [],
            label_getter("tag"),
            max_words=5,
            seed=0,
            what="to test",
        )
