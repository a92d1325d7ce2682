"""The layers of one Doc, kept in `Doc.user_data` as plain arrays so that they serialise with it."""

from dataclasses import dataclass
from typing import Any, cast

from spacy.tokens import Doc
from thinc.types import Floats3d

EXTENSION = "elmo"
# Where spaCy keeps an extension's own value, so that its messages name it.
# Component name -> layers; the component that ran last stands last.
USER_DATA_KEY: Any = ("._.", EXTENSION, None, None)


@dataclass(frozen=True)
class ElmoOutput:
    """What the biLM says of one Doc.

    layers (Floats3d): (layers, tokens, width), layer 0 first; zero rows for whitespace tokens.
    """

    layers: Floats3d


def set_layers(doc: Doc, component: str, layers: Floats3d) -> None:
    stored = doc.user_data.setdefault(USER_DATA_KEY, {})
    stored.pop(component, None)
    stored[component] = layers


def get_layers(doc: Doc, component: str | None = None) -> Floats3d | None:
    """Layers that a component set, by default the one that ran last; None: it did not run.

    Raises ValueError where the tokens have changed since.
    """
    stored = doc.user_data.get(USER_DATA_KEY)
    if not stored:
        return None
    layers = stored.get(component) if component is not None else next(reversed(stored.values()))
    if layers is not None and layers.shape[1] != len(doc):
        raise ValueError(
            f"The ELMo layers of this Doc are those of {layers.shape[1]} tokens, but it has {len(doc)}: "
            "its tokens were merged or split after `elmo` ran; let `elmo` run after that component."
        )
    return cast("Floats3d | None", layers)


def _get_output(doc: Doc) -> ElmoOutput | None:
    layers = get_layers(doc)
    return None if layers is None else ElmoOutput(layers)


def register_extension() -> None:
    """Make `doc._.elmo` known; safe to repeat."""
    Doc.set_extension(EXTENSION, getter=_get_output, force=True)
