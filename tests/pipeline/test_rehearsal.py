"""`nlp.rehearse`: listeners ask for layers, the biLM is not rehearsed."""

import numpy as np
import pytest
from pipelines import (
    Recorder,
    bilm_gradients,
    changed,
    get_bilm,
    get_listeners,
    make_examples,
    make_warm_nlp,
    mixes,
    train,
    weights_of,
)

TASKS = ("tagger", "parser", "ner")


@pytest.mark.parametrize("trainable", [False, True])
@pytest.mark.parametrize("places", [("input",), ("output",), ("input", "output")])
def test_it_pulls_back_to_the_model_that_was(bilm_dir, trainable, places):
    nlp = make_warm_nlp(bilm_dir, TASKS, places=places, trainable=trainable)
    optimizer = nlp.resume_training()
    examples = make_examples(nlp)
    unmoved = nlp.rehearse(examples, sgd=optimizer)
    train(nlp, steps=5)
    bilm, before = weights_of(get_bilm(nlp)), mixes(nlp.get_pipe("tagger"))
    losses = nlp.rehearse(examples, sgd=optimizer)
    assert set(losses) == set(TASKS) and np.isfinite(list(losses.values())).all()
    assert losses["tagger"] > unmoved["tagger"]
    assert mixes(nlp.get_pipe("tagger")) != before
    assert changed(bilm, weights_of(get_bilm(nlp))) == []


def test_docs_with_layers_and_without(bilm_dir):
    nlp = make_warm_nlp(bilm_dir)
    optimizer = nlp.resume_training()
    examples = make_examples(nlp)
    for example in examples[:2]:
        nlp.get_pipe("elmo")(example.predicted)
    assert np.isfinite(nlp.rehearse(examples, sgd=optimizer)["tagger"])


def test_updates_and_rehearsals_take_turns(bilm_dir):
    nlp = make_warm_nlp(bilm_dir, TASKS, trainable=True)
    optimizer = nlp.resume_training()
    before = weights_of(get_bilm(nlp))
    for _ in range(2):
        nlp.update(make_examples(nlp), sgd=optimizer)
        nlp.rehearse(make_examples(nlp), sgd=optimizer)
    assert changed(before, weights_of(get_bilm(nlp))) == list(before)


@pytest.mark.parametrize("carry", [False, True])
@pytest.mark.parametrize("trainable", [False, True])
def test_it_reads_the_biLM_as_it_is_now(bilm_dir, trainable, carry):
    """The same examples again and again, while the biLM is trained; carry: their Docs have layers."""
    nlp = make_warm_nlp(bilm_dir, TASKS, trainable=trainable)
    optimizer = nlp.resume_training()
    examples = make_examples(nlp)
    for example in examples if carry else ():
        nlp.get_pipe("elmo")(example.predicted)
    for _ in range(3):
        train(nlp, steps=2)
        nlp.get_pipe("elmo").finish_update(optimizer)
        nlp.rehearse(examples, sgd=optimizer)
        (listener,) = get_listeners(nlp.get_pipe("tagger"))
        docs = [example.predicted for example in examples]
        fresh = nlp.get_pipe("elmo").predict(docs)
        expected, _ = listener.layers[0](fresh, is_train=False)
        found, _ = listener(docs, is_train=True)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-5)
    assert carry or not any(doc.user_data for doc in docs)


def test_it_teaches_the_bilm_nothing_after_an_update(bilm_dir):
    """Nor between an update and the training loop's finish_update."""
    nlp = make_warm_nlp(bilm_dir, trainable=True)
    optimizer = nlp.resume_training()
    expected = bilm_gradients(nlp)
    nlp.update(make_examples(nlp), sgd=False)
    nlp.get_pipe("tagger").finish_update(Recorder())
    nlp.rehearse(make_examples(nlp), sgd=optimizer)
    recorder = Recorder()
    nlp.get_pipe("elmo").finish_update(recorder)
    for name, gradient in recorder.gradients.items():
        np.testing.assert_allclose(gradient, expected[name], atol=1e-6, err_msg=name)
