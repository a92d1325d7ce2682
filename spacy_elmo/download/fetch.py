"""A published biLM into the user's cache: checked, atomic, safe when two processes do it at once."""

import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ..bilm import cache
from ..bilm.errors import BiLMError
from ..bilm.formats import archive
from ..bilm.formats.files import read_json, write_atomically
from ..bilm.loading import find
from .catalogue import File, Published
from .transfer import Progress, transfer, without_space

PINS = "checksums.json"
ORIGIN = "origin.json"
INCOMING = ".incoming"


@dataclass(frozen=True)
class Fetched:
    """place (Path): The biLM's directory. checksums (dict[str, str]): By file. pinned (bool): Whether
    a checksum was seen for the first time, so that only from now on it can be compared.
    """

    place: Path
    checksums: dict[str, str]
    pinned: bool


def fetch(published: Published, progress: Progress, *, from_file: Path | None = None) -> Fetched:
    """Bring a biLM into the cache, unless it is there; a second process waits for the first.

    from_file: A file, archive or directory that was fetched elsewhere, instead of the network.
    Raises BiLMError.
    """
    import filelock

    root = cache.directory()
    root.mkdir(parents=True, exist_ok=True)
    (root / INCOMING).mkdir(exist_ok=True)
    with filelock.FileLock(root / INCOMING / f"{published.name}.lock"):
        place = root / published.name
        if place.is_dir() and from_file is not None:
            raise BiLMError(
                f"'{published.name}' is there already, expected no {place}: remove it, so that "
                f"{from_file} can take its place, or use what is there."
            )
        if place.is_dir():
            return Fetched(place, _read_checksums(place / ORIGIN), False)
        incoming = root / INCOMING / published.name
        if from_file is None:
            sums, pinned = _from_network(published, incoming, progress)
        else:
            sums, pinned = _from_file(published, incoming, from_file)
        try:
            _settle(published, incoming, place, sums)
        except BiLMError:
            # Else it would be taken for what is wanted when the command is run again.
            shutil.rmtree(incoming)
            raise
        except OSError as error:
            raise without_space(error, root) from None
        for file in published.files:
            if file.name in sums:
                _pin(file, sums[file.name])
        shutil.rmtree(incoming)
        return Fetched(place, sums, pinned)


def _from_network(
    published: Published, incoming: Path, progress: Progress
) -> tuple[dict[str, str], bool]:
    incoming.mkdir(exist_ok=True)
    pins, sums, pinned = _read_pins(), {}, False
    for file in published.files:
        known = file.sha256 or pins.get(file.url)
        sums[file.name] = transfer(file.url, incoming / file.name, known, progress)
        pinned |= known is None
    return sums, pinned


def _from_file(published: Published, incoming: Path, given: Path) -> tuple[dict[str, str], bool]:
    """Copy what is needed; files of the names that they have at their publisher's are compared."""
    import pooch

    find(given).inspect()
    shutil.rmtree(incoming, ignore_errors=True)
    incoming.mkdir()
    files = (given,) if archive.is_archive(given) else find(given).files
    urls, pins, sums = {file.name: file for file in published.files}, _read_pins(), {}
    for path in files:
        sums[path.name] = str(pooch.file_hash(str(path)))
        file = urls.get(path.name)
        known = file and (file.sha256 or pins.get(file.url))
        if known and known != sums[path.name]:
            raise BiLMError(
                f"{path} has the checksum {sums[path.name]}, expected {known}: it is not the file that "
                f"was published as '{published.name}', or it is damaged."
            )
        shutil.copyfile(path, incoming / path.name)
    return sums, False


def _settle(published: Published, incoming: Path, place: Path, sums: dict[str, str]) -> None:
    """Unpack what is packed, make sure that it is a biLM, and move it into place as a whole."""
    with tempfile.TemporaryDirectory(dir=incoming.parent) as temporary:
        ready = Path(temporary, published.name)
        ready.mkdir()
        for name in sums:
            path = incoming / name
            if archive.is_archive(path) and path.suffix == ".zip":
                archive.unpack(path, ready)
            else:
                path.replace(ready / name)
        ready = archive.top(ready)
        find(ready).inspect()
        origin = {
            "name": published.name,
            "urls": [file.url for file in published.files],
            "sha256": sums,
            "origin": published.origin,
            "licence": published.licence,
        }
        text = json.dumps(origin, indent=2) + "\n"
        write_atomically(ready / ORIGIN, lambda path: path.write_text(text, encoding="utf8"))
        ready.replace(place)


def _read_pins() -> dict[str, str]:
    path = cache.directory() / PINS
    parsed = read_json(path) if path.is_file() else {}
    return {str(k): str(v) for k, v in parsed.items()} if isinstance(parsed, dict) else {}


def _pin(file: File, sha256: str) -> None:
    """Remember a checksum that its publisher does not state, to notice if the file changes."""
    import filelock

    if file.sha256:
        return
    root = cache.directory()
    with filelock.FileLock(root / INCOMING / f"{PINS}.lock"):
        text = json.dumps({**_read_pins(), file.url: sha256}, indent=2) + "\n"
        write_atomically(root / PINS, lambda path: path.write_text(text, encoding="utf8"))


def _read_checksums(path: Path) -> dict[str, str]:
    parsed = read_json(path) if path.is_file() else {}
    sums = parsed.get("sha256", {}) if isinstance(parsed, dict) else {}
    return {str(k): str(v) for k, v in sums.items()} if isinstance(sums, dict) else {}
