"""Files read with clear errors and written whole or not at all."""

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from ..errors import BiLMError

# How files begin that stand where a biLM's should, and what they are.
WEB_PAGE = "is a web page, expected a biLM's file: fetch the one that it leads to"
STAND_INS = {
    b"version https://git-lfs": (
        "is what Git LFS leaves in place of a file, expected a biLM's: fetch it, `git lfs pull`"
    ),
    b"<!doctype html": WEB_PAGE,
    b"<html": WEB_PAGE,
}


def stand_in(path: Path) -> str | None:
    """What a file is that was left in place of another, and what to do; None: it is no such file.

    Raises OSError where it cannot be read.
    """
    with path.open("rb") as file:
        beginning = file.read(64).lstrip().lower()
    return next((said for mark, said in STAND_INS.items() if beginning.startswith(mark)), None)


def refuse_stand_in(path: Path) -> None:
    """Raises BiLMError where a file was left in place of another."""
    if path.is_file() and (said := stand_in(path)):
        raise BiLMError(f"{path} {said}.")


def read_json(path: Path) -> object:
    """Parse a JSON file. Raises BiLMError where it cannot be read or is not JSON."""
    try:
        parsed: object = json.loads(path.read_text(encoding="utf8"))
    except OSError as error:
        raise BiLMError(
            f"{path} cannot be read ({error.strerror}), expected JSON that describes a biLM: fetch the "
            "biLM again, or save again the pipeline that holds it."
        ) from None
    except (ValueError, RecursionError) as error:
        refuse_stand_in(path)
        raise BiLMError(
            f"{path} is not JSON ({error}), expected JSON that describes a biLM: fetch it again."
        ) from None
    return parsed


def read_text(path: Path) -> str:
    """A text file as it is, its line ends included. Raises BiLMError where it cannot be read."""
    try:
        refuse_stand_in(path)
        return path.read_bytes().decode("utf8")
    except OSError as error:
        raise BiLMError(
            f"{path} cannot be read ({error.strerror}), expected UTF-8 text: fetch it again."
        ) from None
    except UnicodeDecodeError as error:
        raise BiLMError(
            f"{path} is not text ({error.reason}), expected UTF-8: it is damaged, fetch it again."
        ) from None


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let write fill a file beside path, then move it there; what stood there stays on failure."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    try:
        write(Path(name))
        # mkstemp makes private files; give the mode that a plain open would have.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
