"""`nlp.rehearse`: listeners ask for layers, the biLM is not rehearsed."""

import numpy as np
import pytest
from pipelines import (
    changed,
    get_bilm,
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
