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
    """Raises ValueError where `doc._.elmo` is an extension of someone else."""
    if not _is_ours():
        raise ValueError(
            f"Doc._.{EXTENSION} is an extension that this package did not set, expected its own, which "
            "the component `elmo` fills: give yours another name."
        )
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


def _refuse(_: Doc, value: object) -> None:
    raise AttributeError(
        f"doc._.{EXTENSION} cannot be set to {value!r}, expected only the component `elmo` to set it: "
        "keep your own data in an extension of another name."
    )


def _is_ours() -> bool:
    """By name: a module that was reloaded has another function."""
    if not Doc.has_extension(EXTENSION):
        return False
    _, _, getter, _ = Doc.get_extension(EXTENSION)
    return getattr(getter, "__module__", None) == __name__


def register_extension() -> None:
    """Make `doc._.elmo` known, unless the user has an extension of this name; safe to repeat.

    spaCy imports every plugin for any pipeline, so a user's own is refused only when layers are set.
    """
    if _is_ours() or not Doc.has_extension(EXTENSION):
        Doc.set_extension(EXTENSION, getter=_get_output, setter=_refuse, force=True)
