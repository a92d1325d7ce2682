"""One file from a server: resumed where it broke, checked, whole or not there."""

import errno
import re
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from ..bilm.errors import BiLMError
from ..bilm.formats.files import write_atomically

BLOCK = 2**18
# Seconds to wait for a server, and how often a broken transfer is taken up again at once.
TIMEOUT, ATTEMPTS = 60, 5


class Bar(Protocol):
    """As tqdm: how far a transfer is."""

    def update(self, n: int) -> Any: ...


# (label, bytes that there are already, bytes in all or None) -> a bar.
Progress = Callable[[str, int, int | None], AbstractContextManager[Bar]]


def transfer(url: str, target: Path, sha256: str | None, progress: Progress) -> str:
    """Fetch a file and give its checksum; what has arrived stays in target.part when it breaks.

    Raises BiLMError, in one sentence, where the server, the disk or the checksum refuses.
    """
    import pooch
    import requests

    def download(url: str, output_file: Any, _: Any, check_only: bool = False) -> None:
        part = target.with_name(f"{target.name}.part")
        for attempt in range(ATTEMPTS):
            try:
                _resume(url, part, progress)
                break
            except requests.RequestException:
                if attempt == ATTEMPTS - 1:
                    raise
        shutil.move(part, output_file)
        _tag(part).unlink(missing_ok=True)

    pooch.get_logger().setLevel("WARNING")
    try:
        pooch.retrieve(
            url,
            known_hash=f"sha256:{sha256}" if sha256 else None,
            fname=target.name,
            path=target.parent,
            downloader=download,
        )
        return str(pooch.file_hash(str(target)))
    except BiLMError:
        raise
    except requests.HTTPError as error:
        raise BiLMError(
            f"{url} is refused ({_reason(error)}): it is not there any more or not for "
            "everyone; fetch it another way and give it with --from-file."
        ) from None
    except requests.RequestException as error:
        raise BiLMError(
            f"{url} cannot be fetched ({_reason(error)}): run the command again, it goes on where it "
            "broke, or give a file that was fetched elsewhere with --from-file."
        ) from None
    except ValueError as error:
        # Of pooch, where the checksum is another one; what came is gone.
        found = re.search(r"got ([0-9a-f]+)", str(error))
        raise BiLMError(
            f"{url} has the checksum {found[1] if found else error}, expected {sha256}: the file was "
            "changed or damaged on its way, and is not kept."
        ) from None
    except OSError as error:
        raise without_space(error, target.parent) from None


def _resume(url: str, part: Path, progress: Progress) -> None:
    """Append to part what it lacks, or start anew where the server's file is not the same."""
    import requests

    there = part.stat().st_size if part.is_file() else 0
    tag = _tag(part).read_text() if there and _tag(part).is_file() else ""
    # Without a tag nothing tells whether the rest would be of the same file.
    headers = {"Range": f"bytes={there}-", "If-Range": tag} if tag else {}
    headers["Accept-Encoding"] = "identity"
    with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as answer:
        if tag and answer.status_code == requests.codes.requested_range_not_satisfiable:
            _tag(part).unlink()
            raise requests.ConnectionError("the rest is not there")
        answer.raise_for_status()
        resumed = answer.status_code == requests.codes.partial_content
        there = there if resumed else 0
        length = answer.headers.get("Content-Length", "")
        rest = int(length) if length.isdecimal() else None
        if rest is not None and rest > shutil.disk_usage(part.parent).free:
            raise BiLMError(_no_space(part.parent, rest))
        _remember(part, answer.headers)
        total = None if rest is None else there + rest
        with part.open("ab" if resumed else "wb") as file, progress(part.stem, there, total) as bar:
            for block in answer.iter_content(BLOCK):
                file.write(block)
                bar.update(len(block))
        if total is not None and part.stat().st_size != total:
            raise requests.ConnectionError("the transfer broke off")


def _remember(part: Path, headers: Any) -> None:
    """What tells a file from a later one at the same address; weak tags do not."""
    tag = headers.get("ETag", "")
    tag = headers.get("Last-Modified", "") if not tag or tag.startswith("W/") else tag
    write_atomically(_tag(part), lambda path: path.write_text(tag))


def _tag(part: Path) -> Path:
    return part.with_name(f"{part.name}.tag")


def without_space(error: OSError, place: Path) -> Exception:
    """What to raise for an error of a place: a sentence, where it has no space."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return BiLMError(_no_space(place)) if full else error


def _no_space(place: Path, needed: int | None = None) -> str:
    needs = "" if needed is None else f" for {needed / 1e6:.0f} MB more"
    return (
        f"{place} has no space{needs}: make room or move the cache (SPACY_ELMO_CACHE) and run the "
        "command again, it goes on where it stopped."
    )


def _reason(error: Exception) -> str:
    """The innermost words of a chain of exceptions, in one line."""
    while isinstance(error.args[:1], tuple) and error.args and isinstance(error.args[0], Exception):
        error = error.args[0]
    return " ".join(str(error).split()) or type(error).__name__
