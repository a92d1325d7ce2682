"""Each mistake in a config: one sentence that names what was found and what was expected."""

import json
import re

import pytest
import spacy
from pipelines import LISTENER, add_elmo, add_task, component_config, make_examples, tok2vec_config

from spacy_elmo.bilm.errors import BiLMError


def initialize(nlp):
    nlp.initialize(lambda: make_examples(nlp))


def refuse(action, *said, error=ValueError):
    """action fails with one sentence that says all this."""
    with pytest.raises(error) as caught:
        action()
    message = str(caught.value)
    assert "\n" not in message
    for part in said:
        assert part in message
    assert "expected" in message or "add one" in message or "has the layers" in message


def test_a_listener_without_upstream():
    nlp = spacy.blank("en")
    add_task(nlp, "tagger")
    refuse(
        lambda: initialize(nlp),
        "upstream = '*' found no `elmo` component before its own",
        'nlp.add_pipe("elmo", first=True)',
    )


def test_a_wrong_upstream(bilm_dir):
    nlp = spacy.blank("en")
    add_elmo(nlp, bilm_dir)
    add_task(nlp, "tagger", upstream="emlo")
    refuse(lambda: initialize(nlp), "upstream = 'emlo'", "named 'emlo'", "or correct the name")


def test_elmo_after_its_listeners(bilm_dir):
    nlp = spacy.blank("en")
    add_task(nlp, "tagger")
    add_elmo(nlp, bilm_dir)
    refuse(
        lambda: initialize(nlp), "found no `elmo` component before its own component", "first=True"
    )


def test_neither_input_nor_output():
    nlp = spacy.blank("en")
    refuse(
        lambda: add_task(nlp, "tagger", places=()), "input = null and output = null, expected an"
    )


@pytest.mark.parametrize("dropout", [1.0, -0.5])
def test_a_dropout_that_drops_all_or_less_than_nothing(dropout):
    nlp = spacy.blank("en")
    refuse(
        lambda: add_task(nlp, "tagger", dropout=dropout),
        f"dropout is {dropout}, expected at least 0 and below 1",
    )


MIXES = [
    ({"l2": -1.0}, "l2 = -1.0, expected 0 (no pull to the average) or more"),
    ({"weights": "layr1"}, "weights = 'layr1', expected 'learned', 'uniform' or a layer's name"),
]


@pytest.mark.parametrize(("settings", "said"), MIXES)
def test_a_wrong_mix(bilm_dir, settings, said):
    nlp = spacy.blank("en")
    mix = {"@layers": "spacy-elmo.ScalarMix.v1", **settings}
    refuse(lambda: add_elmo(nlp, bilm_dir, mix=mix), said)
    refuse(lambda: add_task(nlp, "tagger", mix=mix), said)


def test_a_layer_that_the_bilm_lacks(bilm_dir):
    """Known when the biLM is read; training does not start with it."""
    mix = {"@layers": "spacy-elmo.ScalarMix.v1", "weights": "layer7"}
    said = "weights = 'layer7', but this biLM has the layers token, layer1, layer2"
    nlp = spacy.blank("en")
    add_elmo(nlp, bilm_dir, mix=mix)
    refuse(lambda: initialize(nlp), said)
    refuse(lambda: nlp("Ann met Bob"), said)
    nlp = spacy.blank("en")
    add_elmo(nlp, bilm_dir)
    add_task(nlp, "tagger", mix=mix)
    refuse(lambda: initialize(nlp), said)


@pytest.mark.parametrize("batch_words", [0, -5])
def test_a_budget_of_no_words(bilm_dir, batch_words):
    nlp = spacy.blank("en")
    refuse(
        lambda: add_elmo(nlp, bilm_dir, batch_words=batch_words),
        f"batch_words is {batch_words}, expected at least 1",
    )


def test_strides_that_leave_gaps(bilm_dir):
    nlp = spacy.blank("en")
    spans = {"@misc": "spacy-elmo.strided_spans.v1", "window": 4, "stride": 5}
    refuse(
        lambda: add_elmo(nlp, bilm_dir, get_spans=spans), "window = 4 and stride = 5, expected 1 <="
    )


ACTIONS = {
    "initialize": initialize,
    "call": lambda nlp: nlp("Ann met Bob"),
    "to_bytes": lambda nlp: nlp.to_bytes(),
}


@pytest.mark.parametrize("action", list(ACTIONS))
def test_a_name_that_does_not_exist(action):
    """Known when the biLM is needed: a saved pipeline must load where its name is gone."""
    nlp = spacy.blank("en")
    add_elmo(nlp, "no/such/bilm")
    said = ["No biLM 'no/such/bilm': expected the path", "config.json + weights.safetensors"]
    refuse(lambda: ACTIONS[action](nlp), *said, error=BiLMError)


def test_a_directory_of_some_other_model(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    (tmp_path / "model.safetensors").write_bytes(b"")
    nlp = spacy.blank("en")
    add_elmo(nlp, tmp_path)
    refuse(lambda: initialize(nlp), "a model of type 'bert', not a biLM: expected", error=BiLMError)


def test_a_directory_of_a_pipeline(bilm_dir, tmp_path):
    nlp = spacy.blank("en")
    add_elmo(nlp, bilm_dir)
    nlp.to_disk(tmp_path)
    nlp = spacy.blank("en")
    add_elmo(nlp, tmp_path)
    with pytest.raises(
        BiLMError, match=re.escape(f"its biLM is {tmp_path / 'elmo' / 'bilm'}, name that")
    ):
        nlp("Ann met Bob")


def test_a_directory_of_nothing(tmp_path):
    nlp = spacy.blank("en")
    add_elmo(nlp, tmp_path)
    refuse(lambda: nlp("Ann met Bob"), "is not a biLM: expected", "found nothing", error=BiLMError)


def test_an_encoder_of_unknown_width():
    tok2vec = tok2vec_config()
    tok2vec["encode"] = {"@layers": "noop.v1", "*": {}}
    nlp = spacy.blank("en")
    config = component_config("tagger", tok2vec)
    refuse(
        lambda: nlp.add_pipe("tagger", config=config), "cannot tell the width that encode", "noop"
    )


def test_a_misspelt_setting_is_refused_by_spacy(bilm_dir):
    nlp = spacy.blank("en")
    with pytest.raises(ValueError, match="trainabel"):
        add_elmo(nlp, bilm_dir, trainabel=True)
    with pytest.raises(ValueError, match="drop_out"):
        add_task(nlp, "tagger", **{**LISTENER, "drop_out": 0.1})
