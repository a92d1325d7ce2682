"""Zip archives of any layout (NLPL's repository): checked, then read through a temporary directory."""

import stat
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TypeVar

from ..errors import BiLMError
from .source import Source

# Weights barely shrink when they are packed; what grows beyond both of these is no biLM.
LARGEST_RATIO, SMALLEST_BOMB = 50, 2**26
BLOCK = 2**20
Result = TypeVar("Result")
IGNORED = ("__MACOSX/", ".DS_Store")


def is_archive(path: Path) -> bool:
    return path.is_file() and zipfile.is_zipfile(path)


def find(path: Path, find_in: Callable[[Path], Source]) -> Source:
    """Unpack an archive and find the biLM in it. It stays unpacked as long as the Source exists.

    Raises BiLMError for an archive that is damaged or would harm, and for what find_in refuses; its
    messages name places in the archive.
    """
    unpacked = tempfile.TemporaryDirectory(prefix="spacy-elmo-", ignore_cleanup_errors=True)
    place = Path(unpacked.name)

    def naming(use: Callable[[], Result]) -> Callable[[], Result]:
        """Use what is unpacked, with messages about the archive; as long as it is used it stays."""

        def used(alive: object = unpacked) -> Result:
            try:
                return use()
            except BiLMError as error:
                raise BiLMError(str(error).replace(str(place), str(path))) from None

        return used

    try:
        unpack(path, place)
        inside = naming(lambda: find_in(top(place)))()
    except BaseException as error:
        unpacked.cleanup()
        if isinstance(error, OSError):
            raise BiLMError(
                f"{path} cannot be unpacked into {place.parent} ({error.strerror}): make room there, "
                "or unpack it elsewhere and name the directory."
            ) from None
        raise
    return replace(
        inside,
        layout=f"{inside.layout}, in a zip archive",
        files=(path,),
        inspect=naming(inside.inspect),
        read=naming(inside.read),
        read_output=inside.read_output and naming(inside.read_output),
    )


def top(place: Path) -> Path:
    """The directory in which an archive's files are, which may be inside others."""
    entries = list(place.iterdir())
    while len(entries) == 1 and entries[0].is_dir():
        place = entries[0]
        entries = list(place.iterdir())
    return place


def unpack(path: Path, place: Path) -> None:
    """Unpack an archive into a directory, after every member has been checked."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = [m for m in archive.infolist() if not _is_ignored(m)]
            for member in members:
                _check(member, path)
            _check_size(sum(member.file_size for member in members), path)
            for member in members:
                _write(archive, member, place / member.filename)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError) as error:
        raise BiLMError(
            f"{path} cannot be unpacked ({error}): the archive is damaged, incomplete or "
            "encrypted, fetch it again."
        ) from None


def _is_ignored(member: zipfile.ZipInfo) -> bool:
    return member.is_dir() or any(part in member.filename for part in IGNORED)


def _check(member: zipfile.ZipInfo, path: Path) -> None:
    name = member.filename
    # Names are read as both kinds of systems would read them.
    for parsed in (PurePosixPath(name), PureWindowsPath(name)):
        if parsed.anchor or ".." in parsed.parts:
            raise BiLMError(
                f"{path} holds {name!r}, which points outside the archive: it is not safe, "
                "fetch it from its publisher."
            )
    if stat.S_ISLNK(member.external_attr >> 16):
        raise BiLMError(f"{path} holds the link {name!r}, expected files only: it is not safe.")


def _check_size(unpacked: int, path: Path) -> None:
    packed = path.stat().st_size
    if unpacked > max(SMALLEST_BOMB, LARGEST_RATIO * packed):
        raise BiLMError(
            f"{path} holds {unpacked} bytes packed into {packed}, which weights never are: it is not "
            "safe to unpack."
        )


def _write(archive: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(member) as packed, target.open("wb") as file:
        # Never more than the member said, whatever it holds; its checksum is verified at the end.
        while block := packed.read(BLOCK):
            file.write(block)
