"""A config that trains a spaCy pipeline on ELMo: spaCy's own quickstart config, with listeners.

`spacy init config` knows no plugins, so its result is rewritten: every component that listens to the
shared tok2vec gets an embed and an encode of its own, as spaCy recommends them for the language, and
an ElmoListener at their input, their output or both; or the shared tok2vec gets one at its input.
"""

import copy
from collections.abc import Sequence
from typing import Any, Literal

from spacy import blank
from spacy.cli.init_config import init_config
from spacy.language import Language
from spacy.util import load_model_from_config
from thinc.api import Config

from .pipeline import DEFAULT_MODEL

Placement = Literal["input", "output", "both", "shared"]
SHARED = "tok2vec"
SHARED_VECTORS = ("elmo", SHARED, "transformer")
LISTENER = {
    "@architectures": "spacy-elmo.ElmoListener.v1",
    "upstream": "elmo",
    "mix": {
        "@layers": "spacy-elmo.ScalarMix.v1",
        "weights": "learned",
        "l2": 0.001,
        "normalize_layers": True,
    },
    "dropout": 0.2,
}
# Must know the width of its tok2vec before a biLM is read (linker.py).
INPUT_ONLY = ("entity_linker",)


def elmo_config(
    lang: str, pipeline: Sequence[str], model: str, placement: Placement, optimize: str
) -> tuple[Config, list[str]]:
    """A complete training config, and those components that have no tok2vec and so get no ELMo.

    lang (str): spaCy's language code. pipeline: Trainable components. model (str): A biLM's name or
    path, which becomes `[paths] bilm`. placement: Where ELMo is concatenated. "shared": at the
    input of one tok2vec for all, with one mix. optimize (str): As of `spacy init config`, "efficiency"
    or "accuracy".
    Raises ValueError for a language or component that spaCy does not have, and where no component
    would listen.
    """
    _check_components(_blank(lang), pipeline)
    if not pipeline:
        raise ValueError(
            "The pipeline has no component, expected at least one that can listen, such as ner: name it."
        )
    plain = init_config(lang=lang, pipeline=list(pipeline), optimize=optimize)
    listening = [name for name in pipeline if _listens(plain["components"][name])]
    if not listening:
        raise ValueError(
            f"No component of {', '.join(pipeline)} has a tok2vec in spaCy's {optimize} config, expected "
            "at least one that can listen, such as tagger, parser or ner: add it."
        )
    config = _rewrite(plain, listening, model, placement)
    filled = load_model_from_config(config, auto_fill=True).config
    return filled, [name for name in pipeline if name not in listening]


def _blank(lang: str) -> Language:
    """Also loads what entry points register."""
    try:
        return blank(lang)
    except (ImportError, OSError) as error:
        reason = " ".join(str(error).split()).removesuffix(".")
        raise ValueError(
            f"lang is '{lang}', expected the code of a language that spaCy has and whose tokenizer is "
            f"installed, such as 'en', or 'xx' for any other ({reason})."
        ) from None


def _check_components(nlp: Language, pipeline: Sequence[str]) -> None:
    for i, name in enumerate(pipeline):
        if name in SHARED_VECTORS:
            found, remedy = ", for which the shared `elmo` stands in any case", "leave it out"
        elif name in pipeline[:i]:
            found, remedy = " twice", "name it once"
        elif not nlp.has_factory(name):
            found, remedy = ", which no factory makes", "correct the name or install what brings it"
        else:
            continue
        raise ValueError(
            f"The pipeline has '{name}'{found}, expected each trainable component once, such as "
            f"tagger,parser,ner: {remedy}."
        )


def _listens(component: dict[str, Any]) -> bool:
    tok2vec = component.get("model", {}).get("tok2vec", {})
    return str(tok2vec.get("@architectures")).startswith("spacy.Tok2VecListener")


def _rewrite(plain: Config, listening: list[str], model: str, placement: Placement) -> Config:
    config = plain.copy()
    components = config["components"]
    shared = components.pop(SHARED)
    if placement == "shared":
        shared["model"] = _elmo_tok2vec(shared["model"], ("input",))
        components = {SHARED: shared, **components}
    else:
        for name in listening:
            block = _elmo_tok2vec(shared["model"], _places(placement, name))
            block["embed"]["width"] = f"${{components.{name}.model.tok2vec.encode.width}}"
            components[name]["model"]["tok2vec"] = block
        config["nlp"]["pipeline"].remove(SHARED)
    elmo = {"factory": "elmo", "model": {**DEFAULT_MODEL, "name": "${paths.bilm}"}}
    config["components"] = {"elmo": elmo, **components}
    config["nlp"]["pipeline"] = ["elmo", *config["nlp"]["pipeline"]]
    config["paths"]["bilm"] = model
    return config


def _elmo_tok2vec(plain: dict[str, Any], places: Sequence[str]) -> dict[str, Any]:
    """With embed and encode as in spaCy's tok2vec."""
    block: dict[str, Any] = {"@architectures": "spacy-elmo.ElmoTok2Vec.v1"}
    for place in ("input", "output"):
        block[place] = copy.deepcopy(LISTENER) if place in places else None
    return {**block, **copy.deepcopy({part: plain[part] for part in ("embed", "encode")})}


def _places(placement: Placement, name: str) -> tuple[str, ...]:
    if placement != "both":
        return (placement,)
    return ("input",) if name in INPUT_ONLY else ("input", "output")
