"""`nlp.replace_listeners`: a component takes a copy of the biLM along and needs no upstream."""

import shutil

import pytest
import spacy
from pipelines import (
    add_elmo,
    add_task,
    changed,
    component_config,
    get_bilm,
    get_listeners,
    make_examples,
    make_nlp,
    make_warm_nlp,
    mixes,
    predictions,
    tok2vec_config,
    train,
    weights_of,
)
from thinc.api import Config

# The parser last: a biLM of their own reads the sentences that it has set, if it came before.
TASKS = ("tagger", "ner", "parser")
PLACES = [("input",), ("output",), ("input", "output")]


def paths(places):
    return [f"model.tok2vec.{place}" for place in places]


def own_bilms(component):
    return [shim.bilm for node in component.model.walk() for shim in node.shims]


@pytest.mark.parametrize("places", PLACES)
@pytest.mark.parametrize("trainable", [False, True])
def test_predictions_stay_and_reload_without_an_upstream(bilm_dir, tmp_path, places, trainable):
    original = shutil.copytree(bilm_dir, tmp_path / "original")
    nlp = make_warm_nlp(original, TASKS, places=places, trainable=trainable)
    train(nlp)
    expected = predictions(nlp)
    for task in TASKS:
        nlp.replace_listeners("elmo", task, paths(places))
        assert get_listeners(nlp.get_pipe(task)) == []
    assert nlp.get_pipe("elmo").listening_components == []
    assert predictions(nlp) == expected
    nlp.remove_pipe("elmo")
    assert predictions(nlp) == expected
    nlp.to_disk(tmp_path / "saved")
    shutil.rmtree(original)
    again = spacy.load(tmp_path / "saved")
    assert predictions(again) == expected
    assert (
        predictions(spacy.blank("en").from_config(nlp.config).from_bytes(nlp.to_bytes()))
        == expected
    )
    assert mixes(again.get_pipe("tagger")) == mixes(nlp.get_pipe("tagger"))


@pytest.mark.parametrize("places", PLACES)
def test_a_replaced_listener_goes_on_training(bilm_dir, places):
    nlp = make_warm_nlp(bilm_dir, TASKS, places=places, trainable=True)
    nlp.replace_listeners("elmo", "tagger", paths(places))
    shared = weights_of(get_bilm(nlp))
    own = own_bilms(nlp.get_pipe("tagger"))
    assert len(own) == len(places)
    before = [weights_of(bilm) for bilm in own]
    start = mixes(nlp.get_pipe("tagger"))
    train(nlp, steps=2, exclude=["parser", "ner"])
    assert changed(shared, weights_of(get_bilm(nlp))) == [], "the copy is its own"
    for weights, bilm in zip(before, own, strict=True):
        assert changed(weights, weights_of(bilm)) == list(weights)
    assert mixes(nlp.get_pipe("tagger")) != start
    train(nlp, steps=2, exclude=["tagger"])
    assert changed(shared, weights_of(get_bilm(nlp))) == list(shared), "the others still listen"


def test_a_frozen_bilm_is_not_copied(bilm_dir):
    nlp = make_nlp(bilm_dir, TASKS)
    for task in TASKS:
        nlp.replace_listeners("elmo", task, paths(("input",)))
        assert own_bilms(nlp.get_pipe(task)) == [get_bilm(nlp)]


def test_the_mix_in_the_config_stays(bilm_dir):
    mix = {"@layers": "spacy-elmo.ScalarMix.v1", "weights": "layer1", "l2": 0.5}
    nlp = make_nlp(bilm_dir, mix=mix)
    nlp.replace_listeners("elmo", "tagger", paths(("input",)))
    block = nlp.config["components"]["tagger"]["model"]["tok2vec"]["input"]
    assert block["@architectures"] == "spacy-elmo.Elmo.v1"
    assert block["bilm"]["name"] == str(bilm_dir)
    assert block["mix"]["weights"] == "layer1" and block["dropout"] == 0.0


def test_each_of_two_listeners_takes_its_own_mix_along(bilm_dir, tmp_path):
    """Named in the order in which they stand: spaCy does not say which one it replaces."""
    tok2vec = tok2vec_config(("input", "output"))
    settings = {"input": ("token", 0.25), "output": ("layer2", 0.5)}
    for place, (weights, dropout) in settings.items():
        mix = {"@layers": "spacy-elmo.ScalarMix.v1", "weights": weights}
        tok2vec[place] = {**tok2vec[place], "mix": mix, "dropout": dropout}
    nlp = spacy.blank("en")
    add_elmo(nlp, bilm_dir)
    nlp.add_pipe("tagger", config=component_config("tagger", tok2vec))
    nlp.initialize(lambda: make_examples(nlp))
    train(nlp)
    expected = predictions(nlp)
    nlp.replace_listeners("elmo", "tagger", paths(("input", "output")))
    replaced = nlp.config["components"]["tagger"]["model"]["tok2vec"]
    for place, (weights, dropout) in settings.items():
        block = replaced[place]
        assert block["@architectures"] == "spacy-elmo.Elmo.v1"
        assert (block["mix"]["weights"], block["dropout"]) == (weights, dropout)
    nlp.remove_pipe("elmo")
    nlp.to_disk(tmp_path)
    assert predictions(nlp) == expected == predictions(spacy.load(tmp_path))


@pytest.mark.parametrize("places", PLACES)
def test_by_config(bilm_dir, tmp_path, places):
    """The key `replace_listeners` of a sourced component."""
    source = make_nlp(bilm_dir, ("tagger", "ner"), places=places)
    train(source)
    expected = [doc["scores"] for doc in predictions(source)]
    source.to_disk(tmp_path)
    config = Config(spacy.blank("en").config)
    config["nlp"]["pipeline"] = ["tagger"]
    config["components"] = {"tagger": {"source": str(tmp_path), "replace_listeners": paths(places)}}
    nlp = spacy.util.load_model_from_config(config)
    assert nlp.pipe_names == ["tagger"]
    assert [doc["scores"] for doc in predictions(nlp)] == expected
    nlp.to_disk(tmp_path / "again")
    assert [doc["scores"] for doc in predictions(spacy.load(tmp_path / "again"))] == expected


def test_a_replaced_task_beside_another_elmo(bilm_dir, tmp_path):
    """What it is for: the shared biLM may go on learning without it."""
    source = make_nlp(bilm_dir)
    train(source)
    expected = [doc["scores"] for doc in predictions(source)]
    source.replace_listeners("elmo", "tagger", paths(("input",)))
    nlp = make_warm_nlp(bilm_dir, ("ner",), trainable=True)
    nlp.add_pipe("tagger", source=source)
    before = weights_of(get_bilm(nlp))
    train(nlp, exclude=["tagger"])
    assert changed(before, weights_of(get_bilm(nlp))) == list(before)
    assert [doc["scores"] for doc in predictions(nlp)] == expected


def test_unshared_elmo_in_a_new_pipeline(bilm_dir, tmp_path):
    """`spacy-elmo.Elmo.v1` from a config, at both places."""
    tok2vec = tok2vec_config(())
    bilm = {"@architectures": "spacy-elmo.BiLM.v1", "name": str(bilm_dir)}
    for place in ("input", "output"):
        tok2vec[place] = {"@architectures": "spacy-elmo.Elmo.v1", "bilm": bilm}
    nlp = spacy.blank("en")
    nlp.add_pipe(
        "tagger", config={"model": {"@architectures": "spacy.Tagger.v2", "tok2vec": tok2vec}}
    )
    nlp.initialize(lambda: make_examples(nlp))
    train(nlp)
    nlp.to_disk(tmp_path)
    assert predictions(spacy.load(tmp_path)) == predictions(nlp)


def test_replacing_too_few_is_refused_by_spacy(bilm_dir):
    nlp = make_nlp(bilm_dir, places=("input", "output"))
    with pytest.raises(ValueError, match="E887"):
        nlp.replace_listeners("elmo", "tagger", paths(("input",)))


def test_replacing_one_of_two_elmos(bilm_dir):
    nlp = spacy.blank("en")
    add_elmo(nlp, bilm_dir, "first")
    add_elmo(nlp, bilm_dir, "second")
    add_task(nlp, "tagger", upstream="second")
    nlp.initialize(lambda: make_examples(nlp))
    expected = predictions(nlp)
    nlp.replace_listeners("second", "tagger", paths(("input",)))
    nlp.remove_pipe("second")
    assert predictions(nlp) == expected
