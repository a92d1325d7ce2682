"""`python -m spacy elmo download`."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from spacy.cli._util import Arg, Opt
from wasabi import msg

from . import elmo_cli


@elmo_cli.command("download")
def download_cli(
    name: str | None = Arg(None, help="A published biLM's name (see --list)"),
    list_: bool = Opt(False, "--list", "-l", help="Show what is published, and what is here"),
    from_file: Path | None = Opt(
        None,
        "--from-file",
        help="Take a file, archive or directory that was fetched elsewhere, not the network",
    ),
) -> None:
    """Fetch a published biLM into the cache directory, where every `name = ...` finds it.

    A broken transfer goes on where it broke when the command is run again. The cache is the user's;
    the environment variable SPACY_ELMO_CACHE moves it. No other command uses the network.
    """
    from ..bilm.errors import BiLMError
    from ..download import catalogue
    from ..download.fetch import fetch

    if list_:
        _show()
        return
    if name is None:
        msg.fail("Give a name: python -m spacy elmo download --list", exits=1)
    try:
        published = catalogue.get(name)
        fetched = fetch(published, _bar, from_file=from_file)
    except BiLMError as error:
        msg.fail(f"'{name}' is not fetched", str(error), exits=1)
    except OSError as error:
        msg.fail(f"'{name}' cannot be stored", str(error), exits=1)
    for file, sha256 in fetched.checksums.items():
        msg.text(f"sha256 {sha256}  {file}")
    if fetched.pinned:
        msg.info("Its publisher states no checksum: this one is expected from now on")
    msg.text(f"Origin: {published.origin}. Licence: {published.licence}.")
    msg.good(f'{fetched.place} is ready: name = "{name}"')


def _bar(label: str, there: int, total: int | None) -> AbstractContextManager[Any]:
    from tqdm import tqdm

    return tqdm(desc=label, initial=there, total=total, unit="B", unit_scale=True)


def _show() -> None:
    from ..bilm import cache
    from ..download.catalogue import CATALOGUE, NLPL, NOT_STATED

    rows = [
        (
            published.name,
            published.language,
            f"{published.megabytes} MB" if published.megabytes else NOT_STATED,
            published.licence,
            published.origin,
            "yes" if cache.find(published.name) else "",
        )
        for published in CATALOGUE.values()
    ]
    header = ("Name", "Language", "Size, about", "Licence", "Origin", "Here")
    msg.table(rows, header=header, divider=True)
    msg.text(f"Any other biLM of {NLPL}: nlpl-ID")
    msg.text(f"Cache: {cache.directory()}")
