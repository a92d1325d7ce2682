"""Components taken from another pipeline."""

import pytest
import spacy
from pipelines import (
    add_elmo,
    add_task,
    changed,
    get_bilm,
    make_examples,
    make_nlp,
    mixes,
    predictions,
    train,
    weights_of,
    write_larger,
)
from thinc.api import Config

from spacy_elmo.output import get_layers


@pytest.fixture
def source(bilm_dir):
    nlp = make_nlp(bilm_dir, ("tagger", "ner"))
    train(nlp)
    return nlp


def test_elmo_and_its_listeners(source):
    expected = predictions(source)
    nlp = spacy.blank("en")
    for name in ("elmo", "tagger", "ner"):
        nlp.add_pipe(name, source=source)
    assert nlp.get_pipe("elmo").listening_components == ["tagger", "ner"]
    assert predictions(nlp) == expected
    train(nlp, steps=1)


def test_by_config(source, tmp_path):
    source.to_disk(tmp_path)
    expected = predictions(source)
    config = Config(spacy.blank("en").config)
    config["nlp"]["pipeline"] = ["elmo", "tagger", "ner"]
    config["components"] = {name: {"source": str(tmp_path)} for name in config["nlp"]["pipeline"]}
    nlp = spacy.util.load_model_from_config(config)
    assert predictions(nlp) == expected


def test_under_another_name(source):
    """A listener with `upstream = "*"` follows."""
    expected = [token.tag_ for token in source("Ann met Bob")]
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", name="features", source=source)
    nlp.add_pipe("tagger", name="tags", source=source)
    doc = nlp("Ann met Bob")
    assert [token.tag_ for token in doc] == expected
    assert get_layers(doc, "features") is not None


def test_elmo_for_a_new_task(source):
    nlp = make_nlp_on(source)
    before = weights_of(get_bilm(nlp))
    losses = train(nlp, steps=2)
    assert losses["tagger"] > 0 and mixes(nlp.get_pipe("tagger")) != [[0, 0, 0, 1]]
    assert changed(before, weights_of(get_bilm(nlp))) == []


def make_nlp_on(source):
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", source=source)
    add_task(nlp, "tagger")
    nlp.initialize(lambda: make_examples(nlp))
    return nlp


def test_two_pipelines_that_share_elmo_both_work(source):
    expected = predictions(source)
    other = make_nlp_on(source)
    train(other, steps=1)
    other("Ann met Bob")
    assert predictions(source) == expected
    train(source, steps=1)
    train(other, steps=1)
    assert source.get_pipe("elmo") is other.get_pipe("elmo")


def test_a_task_without_elmo_says_so(source, tmp_path):
    source.to_disk(tmp_path)
    nlp = spacy.blank("en")
    nlp.add_pipe("tagger", source=spacy.load(tmp_path))
    with pytest.raises(ValueError, match="found no `elmo` component before its own component"):
        nlp("Ann met Bob")


def test_a_task_for_another_bilm_says_so(source, tmp_path):
    nlp = spacy.blank("en")
    add_elmo(nlp, write_larger(tmp_path))
    nlp.add_pipe("tagger", source=source)
    with pytest.raises(ValueError, match="got 4 layers of width 20, expected 3 of width 16"):
        nlp("Ann met Bob")
