"""Layers that a frozen biLM has made, kept while a pipeline is trained for the epochs after the first."""

import hashlib
from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc, Span
from spacy.util import logger

DType = Literal["float32", "float16"]


@runtime_checkable
class FeatureCache(Protocol):
    """From the tokens and spans of a Doc to its layers, (layers, tokens, width)."""

    def open(self, bilm: str) -> None:
        """Hold the layers of this biLM, given by the digest of all that they depend on."""
        ...

    def get(self, key: bytes) -> NDArray[np.float32] | None: ...

    def put(self, key: bytes, layers: NDArray[np.float32]) -> None:
        """Keep a copy, if there is room."""
        ...


def key_of(doc: Doc, spans: Sequence[Span]) -> bytes:
    """What the layers of a Doc depend on, besides the biLM."""
    digest = hashlib.blake2b(doc.to_array("ORTH").tobytes(), digest_size=16)
    digest.update(np.array([(span.start, span.end) for span in spans], dtype=np.int64).tobytes())
    return digest.digest()


def memory_cache(max_mb: int = 1000, dtype: DType = "float32") -> "MemoryCache":
    """spacy-elmo.memory_cache.v1: in this process's memory.

    max_mb (int): Megabytes of layers. What comes when it is full is computed each time: a training
        goes round, so that dropping the oldest would drop what is needed next.
    dtype (str): "float32", exact, or "float16", half the size.
    """
    return MemoryCache(max_mb, dtype)


class MemoryCache:
    def __init__(self, max_mb: int, dtype: DType) -> None:
        check(max_mb, dtype)
        self.max_mb = max_mb
        self.dtype = dtype
        self._empty()

    def _empty(self) -> None:
        self._bilm: str | None = None
        self._layers: dict[bytes, NDArray[np.floating]] = {}
        self._bytes = 0
        self._is_full = False

    def open(self, bilm: str) -> None:
        if bilm != self._bilm:
            self._empty()
            self._bilm = bilm
            logger.info(
                "ELMo's layers are kept in memory while training, up to %d MB.", self.max_mb
            )

    def get(self, key: bytes) -> NDArray[np.float32] | None:
        found = self._layers.get(key)
        return None if found is None else found.astype(np.float32)

    def put(self, key: bytes, layers: NDArray[np.float32]) -> None:
        if key in self._layers:
            return
        if self._bytes + layers.size * np.dtype(self.dtype).itemsize > self.max_mb * 1_000_000:
            if not self._is_full:
                logger.info("ELMo's cache is full (%d MB): other layers are computed.", self.max_mb)
            self._is_full = True
            return
        kept = layers.astype(self.dtype)
        self._layers[key] = kept
        self._bytes += kept.nbytes

    def __reduce__(self) -> tuple[type["MemoryCache"], tuple[int, DType]]:
        """A copy starts empty."""
        return MemoryCache, (self.max_mb, self.dtype)


def check(max_mb: int, dtype: str) -> None:
    if max_mb < 1:
        raise ValueError(f"The feature cache has max_mb = {max_mb}, expected at least 1.")
    if dtype not in ("float32", "float16"):
        raise ValueError(
            f"The feature cache has dtype = {dtype!r}, expected 'float32' or 'float16'."
        )
