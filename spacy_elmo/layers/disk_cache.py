"""A feature cache in a file, which later and parallel runs share: SQLite keeps it whole."""

import hashlib
import os
import sqlite3
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from spacy.util import logger

from .feature_cache import DType, check

PAGE_BYTES = 65536  # SQLite's largest: layers are long rows
TABLE = (
    "CREATE TABLE IF NOT EXISTS layers (key BLOB PRIMARY KEY, shape TEXT, crc INTEGER, data BLOB)"
)


def disk_cache(path: str, max_mb: int = 10_000, dtype: DType = "float32") -> "DiskCache":
    """spacy-elmo.disk_cache.v1: in a directory, a file for each biLM, found again by the next run.

    path (str): The directory. It is made where it is missing; delete it when you will.
    max_mb (int): Megabytes of a file. What comes when it is full is computed each time.
    dtype (str): "float32", exact, or "float16", half the size.
    """
    return DiskCache(path, max_mb, dtype)


class DiskCache:
    def __init__(self, path: str, max_mb: int, dtype: DType) -> None:
        check(max_mb, dtype)
        self.path = path
        self.max_mb = max_mb
        self.dtype = dtype
        self._bilm: str | None = None
        self._process: int | None = None
        self._is_full = False

    def __reduce__(self) -> tuple[type["DiskCache"], tuple[str, int, DType]]:
        return DiskCache, (self.path, self.max_mb, self.dtype)

    def open(self, bilm: str) -> None:
        """Raises ValueError where no file can be made."""
        # A connection does not survive a fork.
        if (bilm, os.getpid()) == (self._bilm, self._process):
            return
        name = hashlib.blake2b(bilm.encode(), digest_size=16).hexdigest()
        self._file = Path(self.path).expanduser() / f"{name}-{self.dtype}.sqlite3"
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._connect_or_rebuild()
        except (OSError, sqlite3.OperationalError) as error:
            raise ValueError(
                f"The feature cache cannot use {self._file} ({error}), expected a directory that can be "
                "written: give [components.elmo.cache] another path."
            ) from None
        self._bilm, self._process = bilm, os.getpid()
        message = "ELMo's layers are kept in %s while training, up to %d MB."
        logger.info(message, self._file, self.max_mb)

    def get(self, key: bytes) -> NDArray[np.float32] | None:
        try:
            row = self._database.execute(
                "SELECT shape, crc, data FROM layers WHERE key = ?", (key,)
            ).fetchone()
        except sqlite3.DatabaseError as error:
            self._rebuild(error)
            return None
        if row is None or zlib.crc32(row[2]) != row[1]:
            return None
        shape = [int(n) for n in row[0].split()]
        return np.frombuffer(row[2], dtype=self.dtype).reshape(shape).astype(np.float32)

    def put(self, key: bytes, layers: NDArray[np.float32]) -> None:
        if self._is_full:
            return
        data = np.ascontiguousarray(layers, dtype=self.dtype).tobytes()
        shape = " ".join(map(str, layers.shape))
        try:
            with self._database:
                self._database.execute(
                    "INSERT OR REPLACE INTO layers VALUES (?, ?, ?, ?)",
                    (key, shape, zlib.crc32(data), data),
                )
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_FULL:
                raise
            self._is_full = True
            logger.info("ELMo's cache is full (%d MB): other layers are computed.", self.max_mb)
        except sqlite3.DatabaseError as error:
            self._rebuild(error)

    def _connect_or_rebuild(self) -> None:
        try:
            self._connect()
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError as error:
            self._rebuild(error)

    def _connect(self) -> None:
        self._database = sqlite3.connect(self._file, timeout=60)
        for setting in (
            f"page_size = {PAGE_BYTES}",
            "journal_mode = WAL",  # readers and a writer at once
            "synchronous = OFF",  # what a power failure takes is computed again
            f"mmap_size = {self.max_mb * 1_000_000}",
            f"max_page_count = {max(4, self.max_mb * 1_000_000 // PAGE_BYTES)}",
        ):
            self._database.execute(f"PRAGMA {setting}")
        self._database.execute(TABLE)
        self._is_full = False

    def _rebuild(self, error: sqlite3.DatabaseError) -> None:
        logger.warning("ELMo's cache %s is damaged (%s): it is made anew.", self._file, error)
        self._database.close()
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self._file}{suffix}").unlink(missing_ok=True)
        self._connect()
