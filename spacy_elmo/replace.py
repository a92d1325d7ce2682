"""`nlp.replace_listeners`: a listener becomes an `Elmo.v1` of its own, biLM included."""

from collections.abc import Iterator
from typing import Any

from spacy.tokens import Doc
from thinc.api import Model, chain
from thinc.types import Floats2d, Floats3d

from .layers.listener import ElmoListener

LISTENER = "spacy-elmo.ElmoListener.v1"


def replace_listener(
    bilm: Model[list[Doc], list[Floats3d]], listener: ElmoListener, upstream: object
) -> Model[list[Doc], list[Floats2d]]:
    """The model that takes the listener's place: a copy of the biLM under the mix it has learned, of the
    same nodes as `Elmo.v1`, which a saved pipeline builds to read it into.
    """
    mix, dropout = listener.layers[0].layers
    replaced: Model[list[Doc], list[Floats2d]] = chain(bilm, mix, dropout)
    if listener.has_dim("nO"):
        replaced.set_dim("nO", listener.get_dim("nO"))
    return replaced


def replace_listener_config(bilm: dict[str, Any], tok2vec: dict[str, Any]) -> dict[str, Any]:
    """The config block that takes the listener's place.

    spaCy does not say which listener of tok2vec it replaces, so it is the first that still is one.
    (What a mix does is stored with its weights; a wrong guess would show in the config only.)
    """
    block: dict[str, Any] = next(_listeners(tok2vec), {})
    replaced = {"@architectures": "spacy-elmo.Elmo.v1", "bilm": bilm}
    replaced.update((key, block[key]) for key in ("mix", "dropout") if key in block)
    return replaced


def _listeners(block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if block.get("@architectures") == LISTENER:
        yield block
        return
    for value in block.values():
        if isinstance(value, dict):
            yield from _listeners(value)
