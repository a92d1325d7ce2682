"""`nlp.update`: what learns, what does not, and from which gradients."""

import numpy as np
import pytest
import spacy
from pipelines import (
    Recorder,
    add_elmo,
    add_task,
    bilm_gradients,
    changed,
    counting_bilm_calls,
    get_bilm,
    make_examples,
    make_nlp,
    make_warm_nlp,
    mixes,
    train,
    weights_of,
)
from spacy.tokens import Doc
from spacy.training import Example
from thinc.api import SGD, Adam, NumpyOps

TASKS = ("tagger", "parser", "ner")
PLACES = [("input",), ("output",), ("input", "output")]


@pytest.fixture
def no_dropout(monkeypatch):
    """spaCy's parser has a dropout of its own that no setting reaches: gradients would be random."""
    monkeypatch.setattr(
        NumpyOps, "get_dropout_mask", lambda ops, shape, rate: ops.xp.ones(shape, "f")
    )


@pytest.mark.parametrize("places", PLACES)
def test_the_mixes_move_and_a_frozen_bilm_does_not(bilm_dir, places):
    nlp = make_nlp(bilm_dir, TASKS, places=places)
    before = weights_of(get_bilm(nlp))
    losses = train(nlp)
    assert losses["elmo"] == 0.0 and losses["tagger"] > 0
    assert changed(before, weights_of(get_bilm(nlp))) == []
    for task in TASKS:
        found = mixes(nlp.get_pipe(task))
        assert len(found) == len(places)
        for scalars in found:
            assert all(value != start for value, start in zip(scalars, [0, 0, 0, 1], strict=True))


@pytest.mark.parametrize("places", PLACES)
def test_a_trainable_bilm_changes_in_every_parameter(bilm_dir, places):
    nlp = make_warm_nlp(bilm_dir, TASKS, places=places, trainable=True)
    before = weights_of(get_bilm(nlp))
    losses = train(nlp, steps=2)
    assert losses["elmo"] > 0
    assert changed(before, weights_of(get_bilm(nlp))) == list(before)


@pytest.mark.parametrize("trainable", [False, True])
def test_training_helps(bilm_dir, trainable):
    nlp = make_nlp(bilm_dir, trainable=trainable)
    train(nlp, steps=40, sgd=Adam(0.02))
    scores = nlp.evaluate(make_examples(nlp))
    assert scores["tag_acc"] == 1.0


def test_a_named_layer_is_held(bilm_dir):
    mix = {"@layers": "spacy-elmo.ScalarMix.v1", "weights": "layer1"}
    nlp = make_nlp(bilm_dir, mix=mix)
    train(nlp)
    ((*scalars, gamma),) = mixes(nlp.get_pipe("tagger"))
    assert scalars == [0, 0, 0] and gamma != 1


def test_the_components_own_mix_is_not_trained(bilm_dir):
    nlp = make_nlp(bilm_dir, TASKS, trainable=True)
    elmo = nlp.get_pipe("elmo")
    train(nlp, steps=2)
    assert elmo.mix.get_param("gamma") == 1 and not elmo.mix.get_param("scalars").any()


def test_an_optimizer_in_update_is_as_good_as_the_training_loops(bilm_dir):
    """`nlp.update` calls the biLM's finish_update before there are gradients, the loop after."""
    by_update, by_loop = (make_nlp(bilm_dir, ("tagger",), trainable=True) for _ in range(2))
    optimizer = SGD(0.05, L2=0.0)
    for _ in range(3):
        by_update.update(make_examples(by_update), sgd=optimizer)
    by_update.get_pipe("elmo").finish_update(optimizer)
    optimizer = SGD(0.05, L2=0.0)
    for _ in range(3):
        by_loop.update(make_examples(by_loop), sgd=False)
        for _, component in by_loop.pipeline:
            component.finish_update(optimizer)
    expected = weights_of(get_bilm(by_loop))
    for name, weights in weights_of(get_bilm(by_update)).items():
        np.testing.assert_allclose(weights, expected[name], atol=1e-6, err_msg=name)
    np.testing.assert_allclose(
        mixes(by_update.get_pipe("tagger")), mixes(by_loop.get_pipe("tagger")), atol=1e-6
    )


def test_an_optimizer_in_elmos_own_update_is_used(bilm_dir):
    nlp = make_warm_nlp(bilm_dir, trainable=True)
    before = weights_of(get_bilm(nlp))
    elmo, tagger = nlp.get_pipe("elmo"), nlp.get_pipe("tagger")
    for _ in range(2):
        examples = make_examples(nlp)
        elmo.update(examples, sgd=SGD(0.1))
        tagger.update(examples, sgd=SGD(0.1))
    assert changed(before, weights_of(get_bilm(nlp))) == list(before)


@pytest.mark.parametrize("places", PLACES)
def test_the_bilms_gradient_is_the_sum_of_what_each_listener_sends(bilm_dir, places, no_dropout):
    nlp = make_warm_nlp(bilm_dir, TASKS, places=places, trainable=True)
    together = bilm_gradients(nlp)
    alone = [bilm_gradients(nlp, exclude=set(TASKS) - {task}) for task in TASKS]
    assert set(together) == set(weights_of(get_bilm(nlp)))
    for name, gradient in together.items():
        expected = sum(gradients[name] for gradients in alone)
        np.testing.assert_allclose(gradient, expected, atol=1e-5, rtol=1e-3, err_msg=name)
        assert all(gradients[name].any() for gradients in alone)


@pytest.mark.parametrize("frozen", TASKS)
def test_a_frozen_task_does_not_stop_the_others_gradients(bilm_dir, frozen):
    """spaCy's own tok2vec learns nothing if the last of its listeners is frozen."""
    nlp = make_warm_nlp(bilm_dir, TASKS, trainable=True)
    assert all(gradient.any() for gradient in bilm_gradients(nlp, exclude=[frozen]).values())


def test_with_all_tasks_frozen_the_bilm_stays(bilm_dir):
    nlp = make_nlp(bilm_dir, TASKS, trainable=True)
    before = weights_of(get_bilm(nlp))
    train(nlp, exclude=TASKS)
    assert changed(before, weights_of(get_bilm(nlp))) == []


def test_gradients_of_several_batches_are_accumulated(bilm_dir, no_dropout):
    nlp = make_warm_nlp(bilm_dir, TASKS, trainable=True)
    one, other = make_examples(nlp)[:1], make_examples(nlp)[1:]
    expected = [bilm_gradients(nlp, batch) for batch in (one, other)]
    for name, gradient in bilm_gradients(nlp, one, other).items():
        total = expected[0][name] + expected[1][name]
        np.testing.assert_allclose(gradient, total, atol=1e-5, rtol=1e-3, err_msg=name)


def test_gradients_are_used_once(bilm_dir):
    nlp = make_warm_nlp(bilm_dir, TASKS, trainable=True)
    assert bilm_gradients(nlp)
    recorder = Recorder()
    nlp.get_pipe("elmo").finish_update(recorder)
    assert recorder.gradients == {}


def test_batches_of_the_same_words_are_not_mixed_up(bilm_dir, no_dropout):
    """A batch's id in spaCy is a sum of hashes of its words."""
    nlp = make_warm_nlp(bilm_dir, trainable=True)
    examples = make_examples(nlp)
    backwards = bilm_gradients(nlp, examples[::-1])
    for name, gradient in bilm_gradients(nlp, examples).items():
        np.testing.assert_allclose(gradient, backwards[name], atol=1e-5, rtol=1e-3, err_msg=name)


def test_examples_without_annotation_are_left_out(bilm_dir, no_dropout):
    """The parser then asks for a part of the batch only."""
    nlp = make_warm_nlp(bilm_dir, TASKS, trainable=True)
    examples = make_examples(nlp)
    bare = [
        Example(Doc(nlp.vocab, words=words), Doc(nlp.vocab, words=words))
        for words in (["no", "annotation"], ["none", "at", "all"])
    ]
    mixed = [bare[0], *examples[:2], bare[1], *examples[2:]]
    expected = bilm_gradients(nlp, examples, exclude=["tagger", "ner"])
    for name, gradient in bilm_gradients(nlp, mixed, exclude=["tagger", "ner"]).items():
        np.testing.assert_allclose(gradient, expected[name], atol=1e-5, rtol=1e-3, err_msg=name)
    assert set(nlp.update(mixed)) == {"elmo", *TASKS}


@pytest.mark.parametrize("trainable", [False, True])
@pytest.mark.parametrize("texts", [[""], ["", "  "], ["", "Ann met Bob", " \n"]])
def test_docs_without_words(bilm_dir, texts, trainable):
    nlp = make_nlp(bilm_dir, TASKS, trainable=trainable)
    examples = [Example(nlp.make_doc(text), nlp.make_doc(text)) for text in texts]
    for _ in range(2):
        assert np.isfinite(list(nlp.update(examples).values())).all()


@pytest.mark.parametrize("annotating", [True, False])
@pytest.mark.parametrize("trainable", [False, True])
def test_a_frozen_elmo_still_feeds_its_listeners(bilm_dir, trainable, annotating):
    nlp = make_nlp(bilm_dir, TASKS, trainable=trainable)
    before = weights_of(get_bilm(nlp))
    with counting_bilm_calls(nlp) as calls:
        train(nlp, steps=2, exclude=["elmo"], annotates=["elmo"] if annotating else [])
    assert changed(before, weights_of(get_bilm(nlp))) == []
    assert all(mixes(nlp.get_pipe(task)) != [[0, 0, 0, 1]] for task in TASKS)
    assert sum(calls) == 2 * len(make_examples(nlp)), "each Doc is read once a step"


def test_the_bilm_reads_a_batch_once_for_all_listeners(bilm_dir):
    nlp = make_nlp(bilm_dir, TASKS, places=("input", "output"))
    with counting_bilm_calls(nlp) as calls:
        train(nlp, steps=2, annotates=["tagger"])
    assert calls == [4, 4]


def test_an_annotating_elmo_sets_layers_for_those_that_follow(bilm_dir):
    nlp = make_nlp(bilm_dir)
    seen = []
    nlp.add_pipe("elmo_witness", config={}, after="elmo").seen = seen
    train(nlp, steps=1, annotates=["elmo", "elmo_witness"])
    assert len(seen) == 4 and all(layers.any() for layers in seen)


@spacy.Language.factory("elmo_witness")
class Witness:
    def __init__(self, nlp, name):
        self.seen = []

    def __call__(self, doc):
        self.seen.append(doc._.elmo.layers)
        return doc


def test_without_listeners_there_is_nothing_to_do(bilm_dir):
    nlp = spacy.blank("en")
    add_elmo(nlp, bilm_dir, trainable=True)
    nlp.initialize()
    with counting_bilm_calls(nlp) as calls:
        assert nlp.update(make_examples(nlp)) == {"elmo": 0.0}
    assert calls == []


def test_unshared_elmo_trains_inside_its_component(bilm_dir):
    for trainable in (False, True):
        nlp = spacy.blank("en")
        bilm = {
            "@architectures": "spacy-elmo.BiLM.v1",
            "name": str(bilm_dir),
            "trainable": trainable,
        }
        tok2vec = {"@architectures": "spacy-elmo.Elmo.v1", "bilm": bilm}
        model = {"@architectures": "spacy.Tagger.v2", "tok2vec": tok2vec}
        tagger = nlp.add_pipe("tagger", config={"model": model})
        nlp.initialize(lambda nlp=nlp: make_examples(nlp))
        (shim,) = [shim for node in tagger.model.walk() for shim in node.shims]
        before = weights_of(shim.bilm)
        train(nlp, steps=3)
        assert changed(before, weights_of(shim.bilm)) == (list(before) if trainable else [])
        assert mixes(tagger) != [[0, 0, 0, 1]]


def test_losses_are_reported_with_the_next_batch(bilm_dir):
    nlp = make_warm_nlp(bilm_dir, trainable=True)
    first, second = nlp.update(make_examples(nlp)), nlp.update(make_examples(nlp))
    assert first["elmo"] == 0.0 and second["elmo"] > 0.0


def test_a_second_pipeline_does_not_disturb_the_first(bilm_dir, no_dropout):
    one, other = make_warm_nlp(bilm_dir, trainable=True), make_warm_nlp(bilm_dir, trainable=True)
    expected = bilm_gradients(one)
    one.update(make_examples(one), sgd=False)
    other.update(make_examples(other), sgd=False)
    recorder = Recorder()
    one.get_pipe("elmo").finish_update(recorder)
    for name, gradient in recorder.gradients.items():
        np.testing.assert_allclose(gradient, expected[name], atol=1e-6)


def test_a_task_added_later_is_trained_too(bilm_dir):
    nlp = make_nlp(bilm_dir)
    add_task(nlp, "ner")
    nlp.get_pipe("ner").initialize(lambda: make_examples(nlp), nlp=nlp)
    assert nlp.get_pipe("elmo").listening_components == ["tagger", "ner"]
    losses = train(nlp, steps=1)
    assert losses["ner"] > 0
