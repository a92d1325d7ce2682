"""Zip archives of any layout (NLPL's repository): checked, then read through a temporary directory."""

import functools
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import ParamSpec, TypeVar

from ..config import BiLMConfig
from ..errors import BiLMError
from .source import Source

# Weights barely shrink when they are packed; what grows beyond both of these is no biLM.
LARGEST_RATIO, SMALLEST_BOMB = 50, 2**26
BLOCK = 2**20
# Of large members a sketch of an archive has only so much, which is more than headers need.
BEGINNING, TEXTS = 2**20, (".json", ".txt", ".dic")
Result = TypeVar("Result")
Given = ParamSpec("Given")
IGNORED = ("__MACOSX/", ".DS_Store")


def is_archive(path: Path) -> bool:
    return path.is_file() and zipfile.is_zipfile(path)


def find(path: Path, find_in: Callable[[Path], Source]) -> Source:
    """Find the biLM in an archive, by the beginnings of its files. Reading it unpacks it; it stays
    unpacked as long as the Source exists.

    Raises BiLMError for an archive that is damaged or would harm, and for what find_in refuses; its
    messages name places in the archive.
    """
    whole = functools.cache(lambda: _find(path, unpack, find_in))
    try:
        sketched = _find(path, sketch, find_in)
    except BiLMError:
        # The whole tells better why it is refused, or is not; so below.
        sketched = whole()

    def inspect() -> BiLMConfig:
        try:
            return (sketched.outline or sketched.inspect)()
        except BiLMError:
            return whole().inspect()

    return replace(
        sketched,
        layout=f"{sketched.layout}, in a zip archive",
        files=(path,),
        inspect=inspect,
        complete=sketched.outline is None,
        read=lambda: whole().read(),
        read_output=sketched.read_output and (lambda: _given(whole().read_output)()),
        read_token_cache=sketched.read_token_cache
        and (lambda config: _given(whole().read_token_cache)(config)),
    )


def _given(function: Result | None) -> Result:
    """What the sketch of an archive shows the whole archive has."""
    assert function is not None
    return function


def _find(
    path: Path, fill: Callable[[Path, Path], None], find_in: Callable[[Path], Source]
) -> Source:
    place = _Unpacked(path, fill)
    inside = place.naming(find_in)(place.top)
    return replace(
        inside,
        inspect=place.naming(inside.inspect),
        outline=inside.outline and place.naming(inside.outline),
        read=place.naming(inside.read),
        read_output=inside.read_output and place.naming(inside.read_output),
        read_token_cache=inside.read_token_cache and place.naming(inside.read_token_cache),
    )


class _Unpacked:
    """A temporary directory with an archive's files. It goes when this object does."""

    def __init__(self, archive: Path, fill: Callable[[Path, Path], None]) -> None:
        self._archive = archive
        self._directory = tempfile.TemporaryDirectory(
            prefix="spacy-elmo-", ignore_cleanup_errors=True
        )
        place = Path(self._directory.name)
        try:
            fill(archive, place)
        except BaseException as error:
            self._directory.cleanup()
            if isinstance(error, OSError):
                raise BiLMError(
                    f"{archive} cannot be unpacked into {place.parent} ({error.strerror}): make room "
                    "there, or unpack it elsewhere and name the directory."
                ) from None
            raise
        self.top = top(place)

    def naming(self, use: Callable[Given, Result]) -> Callable[Given, Result]:
        """Use what is unpacked, with messages about the archive; as long as it is used it stays."""

        def used(*arguments: Given.args, **more: Given.kwargs) -> Result:
            try:
                return use(*arguments, **more)
            except BiLMError as error:
                message = str(error).replace(self._directory.name, str(self._archive))
                raise BiLMError(message) from None

        return used


def top(place: Path) -> Path:
    """The directory in which an archive's files are, which may be inside others."""
    entries = list(place.iterdir())
    while len(entries) == 1 and entries[0].is_dir():
        place = entries[0]
        entries = list(place.iterdir())
    return place


def unpack(path: Path, place: Path) -> None:
    """Unpack an archive into a directory, after every member has been checked."""
    _extract(path, place, _write)


def sketch(path: Path, place: Path) -> None:
    """As unpack, but large members have only their beginning, and their size: the rest is a hole."""
    _extract(path, place, _sketch)


def _extract(
    path: Path, place: Path, write: Callable[[zipfile.ZipFile, zipfile.ZipInfo, Path], None]
) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            members = [m for m in archive.infolist() if not _is_ignored(m)]
            for member in members:
                _check(member, path)
            _check_size(sum(member.file_size for member in members), path)
            for member in members:
                write(archive, member, place / member.filename)
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


def _sketch(archive: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path) -> None:
    if member.file_size <= BEGINNING or target.suffix in TEXTS:
        _write(archive, member, target)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(member) as packed, target.open("wb") as file:
        file.write(packed.read(BEGINNING))
        file.truncate(member.file_size)
