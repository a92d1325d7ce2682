"""A saved pipeline holds its biLM: exact weights, and no need of the path it came from."""

import pickle
import shutil
from copy import deepcopy

import numpy as np
import pytest
import spacy
from pipelines import (
    SENTENCES,
    Recorder,
    add_elmo,
    bilm_gradients,
    changed,
    get_bilm,
    get_listeners,
    make_examples,
    make_nlp,
    make_warm_nlp,
    mixes,
    predictions,
    train,
    weights_of,
)
from thinc.api import SGD

from spacy_elmo.bilm.loading import load_bilm

TASKS = ("tagger", "parser", "ner")


@pytest.fixture
def bilm(bilm_dir, tmp_path):
    """A copy that a test may delete."""
    return shutil.copytree(bilm_dir, tmp_path / "original")


@pytest.fixture
def nlp(bilm):
    """Trained, the biLM as well."""
    nlp = make_warm_nlp(bilm, TASKS, places=("input", "output"), trainable=True)
    train(nlp)
    return nlp


def by_disk(nlp, tmp_path):
    nlp.to_disk(tmp_path / "saved")
    return spacy.load(tmp_path / "saved")


def by_bytes(nlp, tmp_path):
    return spacy.blank("en").from_config(nlp.config).from_bytes(nlp.to_bytes())


def by_pickle(nlp, tmp_path):
    return pickle.loads(pickle.dumps(nlp))


def by_deepcopy(nlp, tmp_path):
    return deepcopy(nlp)


WAYS = [by_disk, by_bytes, by_pickle, by_deepcopy]


@pytest.mark.parametrize("way", WAYS)
def test_all_is_as_it_was(nlp, bilm, tmp_path, way):
    expected, weights = predictions(nlp), weights_of(get_bilm(nlp))
    shutil.rmtree(bilm)
    again = way(nlp, tmp_path)
    assert changed(weights, weights_of(get_bilm(again))) == []
    for task in TASKS:
        assert mixes(again.get_pipe(task)) == mixes(nlp.get_pipe(task))
    assert predictions(again) == expected


@pytest.mark.parametrize("way", WAYS)
def test_training_goes_on(nlp, bilm, tmp_path, way):
    shutil.rmtree(bilm)
    again = way(nlp, tmp_path)
    elmo = again.get_pipe("elmo")
    before, untouched = weights_of(get_bilm(again)), weights_of(get_bilm(nlp))
    start = {task: mixes(again.get_pipe(task)) for task in TASKS}
    assert elmo.listening_components == list(TASKS)
    for task in TASKS:
        for listener in get_listeners(again.get_pipe(task)):
            assert listener.link.upstream is elmo
    train(again, steps=2)
    assert changed(before, weights_of(get_bilm(again))) == list(before)
    assert all(mixes(again.get_pipe(task)) != start[task] for task in TASKS)
    assert changed(untouched, weights_of(get_bilm(nlp))) == []


@pytest.mark.parametrize("way", WAYS)
def test_rehearsal_goes_on(nlp, tmp_path, way):
    again = way(nlp, tmp_path)
    optimizer = again.resume_training()
    losses = again.rehearse(make_examples(again), sgd=optimizer)
    assert "tagger" in losses


@pytest.mark.parametrize("way", [by_pickle, by_deepcopy])
def test_a_copy_made_while_a_batch_is_under_way(nlp, tmp_path, way):
    """The original goes on with it, the copy has nothing to do with it."""
    nlp.get_pipe("elmo").finish_update(Recorder())
    expected = bilm_gradients(nlp)
    nlp.update(make_examples(nlp), sgd=False)
    again = way(nlp, tmp_path)
    copied, kept = Recorder(), Recorder()
    again.get_pipe("elmo").finish_update(copied)
    nlp.get_pipe("elmo").finish_update(kept)
    assert copied.gradients == {} and set(kept.gradients) == set(expected)
    assert bilm_gradients(again)


def test_the_components_own_mix_is_saved(bilm, tmp_path):
    nlp = spacy.blank("en")
    elmo = add_elmo(nlp, bilm, mix={"@layers": "spacy-elmo.ScalarMix.v1"})
    nlp("Load it")
    elmo.mix.set_param("scalars", np.array([3.0, 1.0, 2.0], dtype="float32"))
    expected = nlp("The bank of the river").tensor
    shutil.rmtree(bilm)
    for way in WAYS:
        np.testing.assert_array_equal(way(nlp, tmp_path)("The bank of the river").tensor, expected)


def test_a_pipeline_that_was_never_used_can_be_saved(bilm, tmp_path):
    for number, way in enumerate((by_disk, by_bytes)):
        nlp = spacy.blank("en")
        add_elmo(nlp, bilm)
        place = tmp_path / str(number)
        place.mkdir()
        again = way(nlp, place)
        assert changed(weights_of(load_bilm(bilm)), weights_of(get_bilm(again))) == []


def test_a_component_alone(nlp, tmp_path):
    elmo = nlp.get_pipe("elmo")
    elmo.to_disk(tmp_path / "elmo")
    blank = spacy.blank("en")
    for number, load in enumerate(
        (lambda e: e.from_disk(tmp_path / "elmo"), lambda e: e.from_bytes(elmo.to_bytes()))
    ):
        other = load(add_elmo(blank, "gone", f"elmo_{number}"))
        assert changed(weights_of(get_bilm(nlp)), weights_of(get_bilm(blank, other.name))) == []


def test_the_saved_bilm_is_one_that_can_be_named(nlp, tmp_path):
    nlp.to_disk(tmp_path / "saved")
    named = load_bilm(tmp_path / "saved" / "elmo" / "bilm")
    assert changed(weights_of(get_bilm(nlp)), weights_of(named)) == []


def test_initialize_keeps_the_weights(nlp, bilm):
    """Of the biLM and its own mix; tasks start anew."""
    weights = weights_of(get_bilm(nlp))
    shutil.rmtree(bilm)
    nlp.initialize(lambda: make_examples(nlp))
    assert changed(weights, weights_of(get_bilm(nlp))) == []
    assert mixes(nlp.get_pipe("tagger")) == [[0, 0, 0, 1]] * 2


def test_settings_of_reading_are_the_configs(bilm, tmp_path):
    """They are no weights: a config may change them in a saved pipeline."""
    nlp = spacy.blank("en")
    add_elmo(nlp, bilm, batch_words=123, carry_state=True)
    again = by_disk(nlp, tmp_path)
    reading = again.get_pipe("elmo").model.attrs["reading"]
    assert (reading.batch_words, reading.carry_state) == (123, True)
    overrides = {"components.elmo.model.batch_words": 7}
    again = spacy.load(tmp_path / "saved", config=overrides)
    assert again.get_pipe("elmo").model.attrs["reading"].batch_words == 7


def test_frozen_and_trainable_are_the_configs(nlp, tmp_path):
    nlp.to_disk(tmp_path / "saved")
    again = spacy.load(tmp_path / "saved", config={"components.elmo.model.trainable": False})
    assert not any(p.requires_grad for p in get_bilm(again).parameters())
    assert bilm_gradients(again) == {}


def test_elmo_can_be_left_out_at_load(nlp, tmp_path):
    nlp.to_disk(tmp_path / "saved")
    again = spacy.load(tmp_path / "saved", exclude=["elmo"])
    with pytest.raises(ValueError, match="found no `elmo` component"):
        again(SENTENCES[0][0])
    assert spacy.load(tmp_path / "saved", disable=["elmo"])(SENTENCES[0][0])[0].tag_


def test_a_frozen_bilm_is_shared_by_copies(bilm):
    nlp = make_nlp(bilm)
    assert get_bilm(deepcopy(nlp)) is get_bilm(nlp)


@pytest.mark.parametrize("way", [*WAYS, None])
def test_the_last_step_of_update_is_saved(bilm, tmp_path, way):
    """`nlp.update` with an optimizer leaves the biLM's step to the next batch. None: a prediction."""
    by_update, by_loop = (make_warm_nlp(bilm, trainable=True) for _ in range(2))
    by_update.update(make_examples(by_update), sgd=SGD(0.05, L2=0.0))
    by_loop.update(make_examples(by_loop), sgd=False)
    for _, component in by_loop.pipeline:
        component.finish_update(SGD(0.05, L2=0.0))
    if way is None:
        by_update("Ann met Bob")
    else:
        by_update = way(by_update, tmp_path)
    expected = weights_of(get_bilm(by_loop))
    for name, weights in weights_of(get_bilm(by_update)).items():
        np.testing.assert_allclose(weights, expected[name], atol=1e-6, err_msg=name)
