"""ELMo for spaCy: the biLM of Peters et al. 2018 and its scalar mix as a pipeline component."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .bilm.embedder import Embedder
    from .bilm.loading import load_bilm
    from .bilm.model import BiLM

__version__ = "0.1.0"
__all__ = ["BiLM", "Embedder", "load_bilm"]

# spaCy imports this package to resolve entry points, so torch must wait until a name is used.
_HOMES = {
    "BiLM": "spacy_elmo.bilm.model",
    "Embedder": "spacy_elmo.bilm.embedder",
    "load_bilm": "spacy_elmo.bilm.loading",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'spacy_elmo' has no attribute '{name}'")
