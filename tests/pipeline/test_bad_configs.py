"""A mistake in a config: one sentence that names the key, what was found, what was expected, and the
remedy.
"""

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
import spacy
from pipelines import LISTENER, add_elmo, add_task, component_config, make_examples, tok2vec_config
from spacy.language import Language

from spacy_elmo.bilm.errors import BiLMError

LAYOUTS = "config.json + weights.safetensors, options.json + weights.hdf5"
SCALAR_MIX = {"@layers": "spacy-elmo.ScalarMix.v1"}


def initialize(nlp):
    nlp.initialize(lambda: make_examples(nlp))


def call(nlp):
    nlp("Ann met Bob")


def to_bytes(nlp):
    nlp.to_bytes()


class Case(NamedTuple):
    """build: The pipeline, of a place with a whole biLM in it. action: Done with it; where it fails.

    remedy: None where the values that are expected are the remedy.
    """

    build: Callable[[Path], Language]
    actions: tuple[Callable[[Language], None], ...]
    key: str
    found: str
    expected: str
    remedy: str | None
    error: type[ValueError] = ValueError


def listener_first(place, with_elmo=False, **tok2vec):
    nlp = spacy.blank("en")
    add_task(nlp, "tagger", **tok2vec)
    if with_elmo:
        add_elmo(nlp, place / "bilm")
    return nlp


def elmo_first(place, elmo=None, name=None, **tok2vec):
    nlp = spacy.blank("en")
    add_elmo(nlp, place / "bilm" if name is None else name, **(elmo or {}))
    if tok2vec:
        add_task(nlp, "tagger", **tok2vec)
    return nlp


def of_bert(place):
    (place / "config.json").write_text(json.dumps({"model_type": "bert"}))
    (place / "model.safetensors").write_bytes(b"")
    return elmo_first(place, name=place)


def of_a_pipeline(place):
    elmo_first(place).to_disk(place / "pipeline")
    return elmo_first(place, name=place / "pipeline")


def of_nothing(place):
    (place / "empty").mkdir()
    return elmo_first(place, name=place / "empty")


def spans(window, stride):
    return {
        "get_spans": {"@misc": "spacy-elmo.strided_spans.v1", "window": window, "stride": stride}
    }


def encoder_of_no_width(place):
    tok2vec = tok2vec_config()
    tok2vec["encode"] = {"@layers": "noop.v1", "*": {}}
    nlp = spacy.blank("en")
    nlp.add_pipe("tagger", config=component_config("tagger", tok2vec))
    return nlp


def spacys_listener(place):
    nlp = elmo_first(place)
    tok2vec = {"@architectures": "spacy.Tok2VecListener.v1", "width": 16, "upstream": "elmo"}
    nlp.add_pipe(
        "tagger", config={"model": {"@architectures": "spacy.Tagger.v2", "tok2vec": tok2vec}}
    )
    return nlp


def linker(place, tok2vec):
    nlp = elmo_first(place)
    model = {"@architectures": "spacy.EntityLinker.v2", "tok2vec": tok2vec}
    nlp.add_pipe("entity_linker", config={"model": model})
    return nlp


BUILD = ()
ADD_ONE = 'add one there, nlp.add_pipe("elmo", first=True), or correct the name'
NO_UPSTREAM = "no `elmo` component"
BEFORE = "before its own component"
CASES = {
    "no upstream": Case(
        listener_first, (initialize,), "upstream = '*'", NO_UPSTREAM, BEFORE, ADD_ONE
    ),
    "elmo after its listeners": Case(
        partial(listener_first, with_elmo=True),
        (initialize,),
        "upstream = '*'",
        NO_UPSTREAM,
        BEFORE,
        ADD_ONE,
    ),
    "spaCy's own listener": Case(
        spacys_listener,
        BUILD,
        "upstream = 'elmo'",
        "spaCy's Tok2VecListener",
        "spacy-elmo.ElmoListener.v1",
        "put it in its place in [components.tagger.model.tok2vec]",
    ),
    **{
        f"an entity linker, {name}": Case(
            partial(linker, tok2vec=tok2vec),
            BUILD,
            "[components.entity_linker.model.tok2vec]",
            "an ElmoListener at the output of its tok2vec, or as its tok2vec",
            "expected one at the input",
            "with a listener as input and output = null",
        )
        for name, tok2vec in {
            "output": tok2vec_config(("output",)),
            "both": tok2vec_config(("input", "output")),
            "bare": LISTENER,
        }.items()
    },
    "a wrong upstream": Case(
        partial(elmo_first, upstream="emlo"),
        (initialize,),
        "upstream = 'emlo'",
        "no `elmo` component named 'emlo'",
        BEFORE,
        ADD_ONE,
    ),
    "neither input nor output": Case(
        partial(listener_first, places=()),
        BUILD,
        "input",
        "input = null and output = null",
        "an ElmoListener (or Elmo) at one of them",
        None,
    ),
    **{
        f"dropout {value}": Case(
            partial(listener_first, dropout=value),
            BUILD,
            "dropout",
            f"is {value}",
            "at least 0 and below 1",
            None,
        )
        for value in (1.0, 1.5, -0.5)
    },
    **{
        f"{key} {value} of {where}": Case(
            build({"mix": {**SCALAR_MIX, key: value}}), BUILD, key, repr(value), expected, None
        )
        for where, build in {
            "the component": lambda settings: partial(elmo_first, elmo=settings),
            "a listener": lambda settings: partial(elmo_first, **settings),
        }.items()
        for key, value, expected in [
            ("l2", -1.0, "0 (no pull to the average) or more"),
            *(
                ("weights", name, "'uniform' or a layer's name")
                for name in ("layr1", "", "layer-1")
            ),
        ]
    },
    "a layer that the biLM lacks, in the component": Case(
        partial(elmo_first, elmo={"mix": {**SCALAR_MIX, "weights": "layer7"}}),
        (initialize, call),
        "weights",
        "'layer7'",
        "this biLM has the layers token, layer1, layer2",
        None,
    ),
    "a layer that the biLM lacks, in a listener": Case(
        partial(elmo_first, mix={**SCALAR_MIX, "weights": "layer7"}),
        (initialize,),
        "weights",
        "'layer7'",
        "this biLM has the layers token, layer1, layer2",
        None,
    ),
    **{
        f"batch_words {value}": Case(
            partial(elmo_first, elmo={"batch_words": value}),
            BUILD,
            "batch_words",
            f"is {value}",
            "at least 1",
            None,
        )
        for value in (0, -5)
    },
    **{
        f"strides {window}, {stride}": Case(
            partial(elmo_first, elmo=spans(window, stride)),
            BUILD,
            "stride",
            f"window = {window} and stride = {stride}",
            "1 <= stride <= window",
            None,
        )
        for window, stride in ((4, 5), (4, 0), (0, 0), (-1, -1))
    },
    "an encoder of no width": Case(
        encoder_of_no_width,
        BUILD,
        "encode",
        "'noop'",
        "an encoder such as spacy.MaxoutWindowEncoder.v2",
        None,
    ),
    # Known when the biLM is needed: a saved pipeline must load where its name is gone.
    "a name that does not exist": Case(
        partial(elmo_first, name="no/such/bilm"),
        (initialize, call, to_bytes),
        "No biLM",
        "'no/such/bilm'",
        f"the path of one ({LAYOUTS}",
        "python -m spacy elmo download NAME",
        BiLMError,
    ),
    "some other model": Case(
        of_bert,
        (initialize, call),
        "config.json",
        "a model of type 'bert'",
        LAYOUTS,
        "or a zip archive of one of these",
        BiLMError,
    ),
    "a pipeline": Case(
        of_a_pipeline,
        (call,),
        "pipeline",
        "is a pipeline",
        "not a biLM",
        "its biLM is",
        BiLMError,
    ),
    "nothing": Case(
        of_nothing,
        (call,),
        "empty",
        "found nothing",
        LAYOUTS,
        "or a zip archive of one of these",
        BiLMError,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_it_says_key_expected_found_and_remedy(bilm_dir, tmp_path, name):
    case = CASES[name]
    (tmp_path / "bilm").symlink_to(bilm_dir)
    if case.actions == BUILD:
        check(lambda: case.build(tmp_path), case)
        return
    for action in case.actions:
        (place := tmp_path / action.__name__).mkdir()
        (place / "bilm").symlink_to(bilm_dir)
        nlp = case.build(place)
        check(lambda action=action, nlp=nlp: action(nlp), case)


def check(action, case):
    with pytest.raises(case.error) as caught:
        action()
    message = str(caught.value)
    assert message.endswith(".") and not re.search(r"\n|\.\s", message), message
    for part in (case.key, case.found, case.expected, case.remedy or case.expected):
        assert part in message


def test_a_misspelt_setting_is_refused_by_spacy(bilm_dir):
    nlp = spacy.blank("en")
    with pytest.raises(ValueError, match="trainabel"):
        add_elmo(nlp, bilm_dir, trainabel=True)
    with pytest.raises(ValueError, match="drop_out"):
        add_task(nlp, "tagger", **{**LISTENER, "drop_out": 0.1})
