"""Sorted tables of keys and values, as LevelDB and TensorFlow write them: read without either.

Documented in LevelDB's doc/table_format.md: blocks of entries whose keys share prefixes, an index block
of where they are, and a footer of where the index is. Each block ends with its kind and checksum.
"""

import struct
from collections.abc import Iterator

from .crc32c import crc32c, masked

FOOTER, TRAILER = 48, 5
MAGIC = 0xDB4775248B80FB57


class TableError(ValueError):
    """Bytes that are no such table; the message says where."""


def is_table(data: bytes) -> bool:
    return len(data) >= FOOTER and int.from_bytes(data[-8:], "little") == MAGIC


def read_table(data: bytes) -> dict[bytes, bytes]:
    """Every key and its value. Raises TableError where the table is damaged."""
    if not is_table(data):
        raise TableError("it does not end as a table does")
    at = len(data) - FOOTER
    # The first handle is of the meta index, which holds nothing of use here.
    for _ in range(2):
        at = read_varint(data, at)[1]
    _, index = _handle(data, at)
    table: dict[bytes, bytes] = {}
    for _, value in _entries(_block(data, index)):
        table.update(_entries(_block(data, _handle(value, 0)[1])))
    return table


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of variable length, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise TableError("a number in it does not end")


def _handle(data: bytes, at: int) -> tuple[int, tuple[int, int]]:
    """Where a handle ends, and the (offset, size) of the block that it points to."""
    offset, at = read_varint(data, at)
    size, at = read_varint(data, at)
    return at, (offset, size)


def _block(data: bytes, handle: tuple[int, int]) -> bytes:
    offset, size = handle
    end = offset + size
    if end + TRAILER > len(data):
        raise TableError("a block lies beyond its end")
    kind = data[end]
    if masked(crc32c(data[offset : end + 1])) != int.from_bytes(
        data[end + 1 : end + TRAILER], "little"
    ):
        raise TableError("the checksum of a block is wrong")
    if kind != 0:
        raise TableError(f"a block is compressed (kind {kind})")
    return data[offset:end]


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    if len(block) < 4:
        raise TableError("a block is too short")
    (restarts,) = struct.unpack_from("<I", block, len(block) - 4)
    end = len(block) - 4 - 4 * restarts
    at, key = 0, b""
    while at < end:
        shared, at = read_varint(block, at)
        own, at = read_varint(block, at)
        size, at = read_varint(block, at)
        if shared > len(key) or at + own + size > end:
            raise TableError("an entry lies beyond its block")
        key = key[:shared] + block[at : at + own]
        yield key, block[at + own : at + own + size]
        at += own + size
