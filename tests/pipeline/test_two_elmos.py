"""Two `elmo` components in one pipeline, of different biLMs."""

import pickle

import numpy as np
import pytest
import spacy
from pipelines import (
    add_elmo,
    add_task,
    changed,
    component_config,
    counting_bilm_calls,
    get_bilm,
    get_listeners,
    make_examples,
    predictions,
    tok2vec_config,
    train,
    weights_of,
    write_larger,
)

from spacy_elmo.output import get_layers


@pytest.fixture
def nlp(bilm_dir, tmp_path):
    """Each with a listener that names it, trainable, the two side by side at the start."""
    nlp = spacy.blank("en")
    add_elmo(nlp, bilm_dir, "small", trainable=True)
    add_elmo(nlp, write_larger(tmp_path / "larger"), "large", trainable=True)
    add_task(nlp, "tagger", upstream="small")
    add_task(nlp, "ner", upstream="large")
    nlp.initialize(lambda: make_examples(nlp))
    train(nlp)
    return nlp


def test_each_listener_has_its_own(nlp):
    assert nlp.get_pipe("small").listening_components == ["tagger"]
    assert nlp.get_pipe("large").listening_components == ["ner"]
    widths = [get_listeners(nlp.get_pipe(name))[0].get_dim("nO") for name in ("tagger", "ner")]
    assert widths == [16, 20]


def test_layers_of_both_are_kept_and_the_last_is_the_docs(nlp):
    doc = nlp("Ann met Bob")
    assert get_layers(doc, "small").shape == (3, 3, 16)
    assert get_layers(doc, "large").shape == (4, 3, 20)
    assert doc._.elmo.layers is get_layers(doc, "large")
    assert doc.tensor.shape == (3, 20)
    again = spacy.tokens.Doc(nlp.vocab).from_bytes(doc.to_bytes(exclude=["user_hooks"]))
    np.testing.assert_array_equal(again._.elmo.layers, get_layers(doc, "large"))


def test_gradients_go_to_the_bilm_that_was_listened_to(nlp):
    small, large = weights_of(get_bilm(nlp, "small")), weights_of(get_bilm(nlp, "large"))
    train(nlp, steps=2, exclude=["ner", "large"])
    assert changed(small, weights_of(get_bilm(nlp, "small"))) == list(small)
    assert changed(large, weights_of(get_bilm(nlp, "large"))) == []


def test_they_are_saved_side_by_side(nlp, tmp_path):
    nlp.to_disk(tmp_path / "saved")
    assert predictions(spacy.load(tmp_path / "saved")) == predictions(nlp)


def test_any_upstream_is_the_nearest_before(bilm_dir, tmp_path):
    """Also after pickling, when training goes on."""
    nlp = spacy.blank("en")
    add_elmo(nlp, bilm_dir, "small", trainable=True)
    add_task(nlp, "tagger")
    add_elmo(nlp, write_larger(tmp_path / "larger"), "large", trainable=True)
    add_task(nlp, "ner")
    nlp.initialize(lambda: make_examples(nlp))
    for again in (nlp, pickle.loads(pickle.dumps(nlp))):
        expected = predictions(again)
        for task, upstream in (("tagger", "small"), ("ner", "large")):
            (listener,) = get_listeners(again.get_pipe(task))
            assert listener.link.upstream is again.get_pipe(upstream)
        before = {name: weights_of(get_bilm(again, name)) for name in ("small", "large")}
        train(again)
        for name, weights in before.items():
            assert changed(weights, weights_of(get_bilm(again, name))) == list(weights)
        assert predictions(again) != expected


def test_a_component_may_listen_to_both(bilm_dir, tmp_path):
    nlp = spacy.blank("en")
    add_elmo(nlp, bilm_dir, "small")
    add_elmo(nlp, write_larger(tmp_path / "larger"), "large")
    tok2vec = tok2vec_config(("input", "output"))
    tok2vec["input"] = {**tok2vec["input"], "upstream": "small"}
    tok2vec["output"] = {**tok2vec["output"], "upstream": "large"}
    tagger = nlp.add_pipe("tagger", config=component_config("tagger", tok2vec))
    nlp.initialize(lambda: make_examples(nlp))
    train(nlp)
    upstreams = {listener.link.upstream.name for listener in get_listeners(tagger)}
    assert upstreams == {"small", "large"}
    expected = predictions(nlp)
    nlp.to_disk(tmp_path / "saved")
    assert predictions(spacy.load(tmp_path / "saved")) == expected


@pytest.fixture
def side_by_side(bilm_dir, tmp_path):
    """The second is nearer to the tagger, which listens to any."""
    nlp = spacy.blank("en")
    add_elmo(nlp, bilm_dir, "first", keep_layers=False)
    add_elmo(nlp, write_larger(tmp_path / "larger"), "second", keep_layers=False)
    add_task(nlp, "tagger")
    nlp.initialize(lambda: make_examples(nlp))
    train(nlp)
    return nlp


def test_a_listener_is_of_one_upstream_only(side_by_side):
    nlp = side_by_side
    assert nlp.get_pipe("first").listening_components == []
    assert nlp.get_pipe("second").listening_components == ["tagger"]
    doc = nlp("Ann met Bob")
    assert get_layers(doc, "first") is None and get_layers(doc, "second") is not None
    with counting_bilm_calls(nlp, "first") as calls:
        nlp.update(make_examples(nlp))
    assert calls == [], "nobody listens to it"


def test_only_the_upstreams_listeners_are_replaced(side_by_side):
    nlp = side_by_side
    expected = predictions(nlp)
    with pytest.raises(ValueError, match="E887"):
        nlp.replace_listeners("first", "tagger", ["model.tok2vec.input"])
    nlp.replace_listeners("second", "tagger", ["model.tok2vec.input"])
    assert predictions(nlp) == expected
    nlp.remove_pipe("second")
    assert predictions(nlp) == expected
    assert nlp.get_pipe("first").listening_components == []


def test_with_the_nearest_gone_the_other_is_listened_to(side_by_side):
    nlp = side_by_side
    nlp.remove_pipe("second")
    assert nlp.get_pipe("first").listening_components == ["tagger"]
