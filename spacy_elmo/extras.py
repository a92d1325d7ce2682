"""Libraries that only a part of this package needs: imported late, and named if missing."""

from importlib import import_module
from types import ModuleType


class MissingExtra(ImportError):
    """A library of an extra is not installed; the message says how to install it."""


def require(module: str, extra: str = "analysis") -> ModuleType:
    """Import a module, or raise MissingExtra with the command that installs it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtra(
            f"This needs '{module.partition('.')[0]}', which cannot be imported ({error}): "
            f'python -m pip install "spacy-elmo[{extra}]"'
        ) from error
