"""TensorFlow's tensor bundle, NAME.index + NAME.data-00000-of-00001: read without TensorFlow.

The index is a sorted table of tensors' names and protobuf entries (`tensor_bundle.proto`), the data
are the raw tensors.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ..errors import BiLMError
from .crc32c import crc32c, masked
from .sstable import TableError, is_table, read_table, read_varint

INDEX = ".index"
FLOAT = 1  # DT_FLOAT in types.proto
REMEDY = "the checkpoint is damaged or incomplete, fetch it again"


@dataclass(frozen=True)
class Entry:
    """Of a tensor: its type as TensorFlow counts types, its shape, and where it is.

    sliced (bool): Whether it is stored in pieces under other names. checksum (int): Masked CRC-32C.
    """

    dtype: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    sliced: bool
    checksum: int


@dataclass(frozen=True)
class Bundle:
    """A checkpoint: prefix (Path) is its name without ".index"."""

    prefix: Path
    shards: int
    entries: dict[str, Entry]

    @property
    def files(self) -> tuple[Path, ...]:
        return (_index(self.prefix), *(self._data(shard) for shard in range(self.shards)))

    def check(self, name: str, shape: tuple[int, ...] | None = None) -> Entry:
        """The entry of a tensor of floats that lies within its file. Raises BiLMError."""
        index = _index(self.prefix)
        if name not in self.entries:
            raise BiLMError(f"{index} lacks the tensor '{name}'; {REMEDY}.")
        entry = self.entries[name]
        if entry.dtype != FLOAT or entry.sliced:
            kind = "sliced" if entry.sliced else f"of TensorFlow's type {entry.dtype}"
            raise BiLMError(
                f"{index}: the tensor '{name}' is {kind}, expected whole and of float32: "
                "save the checkpoint again, unpartitioned, in float32."
            )
        if shape is not None and entry.shape != shape:
            raise BiLMError(
                f"{index}: the tensor '{name}' has the shape {entry.shape}, expected {shape} "
                "according to options.json: they belong to different models."
            )
        if entry.size != 4 * math.prod(entry.shape):
            raise BiLMError(f"{index}: '{name}' is {entry.size} bytes of {entry.shape}; {REMEDY}.")
        self._check_place(name, entry)
        return entry

    def check_files(self) -> None:
        """That every tensor lies within its file, also of those that a biLM does not need."""
        for name, entry in self.entries.items():
            self._check_place(name, entry)

    def load(self, name: str) -> Tensor:
        """Raises BiLMError, also where the tensor's checksum is another one."""
        entry = self.check(name)
        count = math.prod(entry.shape)
        data = self._data(entry.shard)
        values = np.fromfile(data, "<f4", count, offset=entry.offset)
        found = masked(crc32c(values.view(np.uint8)))
        if found != entry.checksum:
            raise BiLMError(
                f"{data}: the tensor '{name}' has the checksum {found:08x}, expected "
                f"{entry.checksum:08x} according to {_index(self.prefix).name}; {REMEDY}."
            )
        return torch.from_numpy(values.astype(np.float32, copy=False).reshape(entry.shape))

    def _check_place(self, name: str, entry: Entry) -> None:
        data = self._data(entry.shard)
        if not data.is_file():
            raise BiLMError(
                f"{data} is missing, expected beside {_index(self.prefix).name}; {REMEDY}."
            )
        if entry.offset + entry.size > data.stat().st_size:
            raise BiLMError(f"{data} ends before the tensor '{name}' does; {REMEDY}.")

    def _data(self, shard: int) -> Path:
        name = f"{self.prefix.name}.data-{shard:05d}-of-{self.shards:05d}"
        return self.prefix.with_name(name)


def is_index(path: Path) -> bool:
    """Whether a file is the index of a bundle."""
    if path.suffix != INDEX or not path.is_file():
        return False
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - 48, 0))
        return is_table(file.read())


def open_bundle(prefix: Path) -> Bundle:
    """Read a bundle's index. Raises BiLMError where it is damaged."""
    path = _index(prefix)
    try:
        table = read_table(path.read_bytes())
        header = dict(_fields(table.pop(b"")))
        if header.get(2):
            raise TableError("its numbers are big-endian")
        entries = {key.decode(): _entry(value) for key, value in table.items()}
    except OSError as error:
        raise BiLMError(f"{path} cannot be read ({error.strerror}).") from None
    except (TableError, KeyError, UnicodeDecodeError) as error:
        reason = str(error) if isinstance(error, TableError) else "it has no header"
        raise BiLMError(
            f"{path} is not the index of a TensorFlow checkpoint ({reason}); {REMEDY}."
        ) from None
    shards = header.get(1, 1)
    return Bundle(prefix, shards if isinstance(shards, int) else 1, entries)


def _index(prefix: Path) -> Path:
    return prefix.with_name(prefix.name + INDEX)


def _entry(data: bytes) -> Entry:
    numbers = {1: 0, 3: 0, 4: 0, 5: 0}
    shape: tuple[int, ...] = ()
    sliced, checksum = False, 0
    for field, value in _fields(data):
        if isinstance(value, int):
            numbers[field] = value
        elif field == 2:
            shape = tuple(_dimensions(value))
        elif field == 6:
            checksum = int.from_bytes(value, "little")
        elif field == 7:
            sliced = True
    return Entry(numbers[1], shape, numbers[3], numbers[4], numbers[5], sliced, checksum)


def _dimensions(data: bytes) -> Iterator[int]:
    for field, value in _fields(data):
        if field == 2 and isinstance(value, bytes):
            size = dict(_fields(value)).get(1, 0)
            if not isinstance(size, int):
                raise TableError("a shape in it is no number")
            yield size


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Numbers and values of a protobuf message's fields."""
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        kind = tag & 7
        if kind == 0:
            number, at = read_varint(data, at)
            yield tag >> 3, number
            continue
        if kind == 2:
            size, at = read_varint(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise TableError(f"an entry has a field of kind {kind}")
        if at + size > len(data):
            raise TableError("an entry is cut short")
        yield tag >> 3, data[at : at + size]
        at += size
