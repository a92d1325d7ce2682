"""The Castagnoli checksum (RFC 3720, appendix B.4), fast enough for hundreds of megabytes: by NumPy.

The register after some words is linear in them, so the first half of a block may be advanced over the
length of the second and added to it, until one word is left.
"""

import functools
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

POLYNOMIAL, ONES = 0x82F63B78, 0xFFFFFFFF
# Words of four bytes in a block: a power of two, so that both halves have one length.
BLOCK = 2**20
Words = NDArray[np.uint32]


def crc32c(data: bytes | NDArray[np.uint8]) -> int:
    """Of bytes, at any length."""
    whole = np.frombuffer(data, dtype=np.uint8)
    end = len(whole) // 4 * 4
    register = ONES
    for block in _blocks(whole[:end].view("<u4").astype(np.uint32, copy=False)):
        words = block.copy()
        words[0] ^= np.uint32(register)
        while len(words) > 1:
            half = len(words) // 2
            words = _advance(words[:half], half) ^ words[half:]
        register = int(_advance(words, 1)[0])
    for byte in whole[end:].tolist():
        register = int(_byte_table()[(register ^ byte) & 0xFF]) ^ register >> 8
    return register ^ ONES


def masked(crc: int) -> int:
    """As files store it that hold their own checksum (LevelDB, TensorFlow)."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & ONES


def _blocks(words: Words) -> Iterator[Words]:
    """Of a power of two of words each."""
    start = 0
    while rest := len(words) - start:
        size = min(BLOCK, 1 << (rest.bit_length() - 1))
        yield words[start : start + size]
        start += size


def _advance(registers: Words, words: int) -> Words:
    """Registers after so many words of zeros, a power of two."""
    low, high = _tables(words)
    return np.take(low, registers & 0xFFFF) ^ np.take(high, registers >> 16)


@functools.cache
def _tables(words: int) -> tuple[Words, Words]:
    """What _advance makes of the low and the high half of a register."""
    bits: Words = np.uint32(1) << np.arange(32, dtype=np.uint32)
    if words > 1:
        bits = _advance(_advance(bits, words // 2), words // 2)
    else:
        for _ in range(4):
            bits = _byte_table()[bits & 0xFF] ^ bits >> 8
    return _span(bits[:16]), _span(bits[16:])


@functools.cache
def _byte_table() -> Words:
    """A register of one byte after one byte of zeros."""
    table: Words = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, table >> 1 ^ np.uint32(POLYNOMIAL), table >> 1)
    return table


def _span(bits: Words) -> Words:
    """The sums of what the bits of each number stand for."""
    table = np.zeros(1, dtype=np.uint32)
    for bit in bits:
        table = np.concatenate([table, table ^ bit])
    return table
