"""Where downloaded biLMs are. Looks into the user's cache directory, never at the network."""

import os
from pathlib import Path

VARIABLE = "SPACY_ELMO_CACHE"


def directory() -> Path:
    """The user's cache directory, or where the environment variable SPACY_ELMO_CACHE moves it."""
    if moved := os.environ.get(VARIABLE):
        return Path(moved).expanduser()
    import pooch

    return Path(pooch.os_cache("spacy-elmo"))


def is_name(name: str) -> bool:
    """Whether a downloaded biLM can be called so: one part of a path, not hidden."""
    return name != "" and not name.startswith(".") and Path(name).name == name and "\\" not in name


def find(name: str) -> Path | None:
    """The directory of a downloaded biLM, which is whole or not there."""
    place = directory() / name
    return place if is_name(name) and place.is_dir() else None
