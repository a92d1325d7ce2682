"""UTF-8 text, plain or compressed, line by line: pretraining and the analyses read it alike.

What is wrong with a file is raised as the error that the caller names: one sentence, with the file, the
line and the remedy.
"""

import bz2
import gzip
import json
import lzma
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


def kind(path: Path) -> str:
    """What a file is by its name, compression left out: ".txt", ".jsonl"."""
    return (path.with_suffix("") if path.suffix in OPENERS else path).suffix


def numbered_lines(path: Path, error: type[ValueError]) -> Iterator[tuple[int, str]]:
    """Lines with their ends, numbered from 1."""
    try:
        with OPENERS.get(path.suffix, open)(path, "rb") as stream:
            for number, line in enumerate(stream, 1):
                try:
                    yield number, line.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as found:
                    raise error(
                        f"{path}, line {number} is not UTF-8 (byte {line[found.start]:#04x} at offset "
                        f"{found.start} of the line): convert the file, for example with iconv."
                    ) from None
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as found:
        if isinstance(found, OSError) and found.errno is not None:
            raise error(f"{path} cannot be read ({found.strerror}).") from None
        raise error(
            f"{path} cannot be decompressed ({found}): it is damaged or cut short, fetch it again."
        ) from None


def tokens_or_text(path: Path, number: int, line: str, error: type[ValueError]) -> list[str] | str:
    """What a line of JSONL holds: "tokens", a list of strings, or else "text", a string."""
    try:
        record = json.loads(line)
    except ValueError as found:
        raise error(
            f"{path}, line {number} is not JSON ({found}): expected one object a line."
        ) from None
    fields = record if isinstance(record, dict) else {}
    tokens, text = fields.get("tokens"), fields.get("text")
    if isinstance(tokens, list) and all(isinstance(token, str) for token in tokens):
        return tokens
    if isinstance(text, str):
        return text
    raise error(
        f'{path}, line {number} has neither "text" (a string) nor "tokens" (a list of strings): '
        "expected one of them in each record."
    )
