"""The Castagnoli checksum, against published values and a bit at a time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_elmo.bilm.formats import crc32c as module
from spacy_elmo.bilm.formats.crc32c import crc32c, masked


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
    ],
)
def test_the_values_of_rfc_3720(data: bytes, expected: int) -> None:
    assert crc32c(data) == expected


def bit_by_bit(data: bytes) -> int:
    register = 0xFFFFFFFF
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (0x82F63B78 if register & 1 else 0)
    return register ^ 0xFFFFFFFF


@settings(deadline=None)
@given(st.binary(max_size=300), st.sampled_from([1, 2, 8, 2**20]))
def test_any_length_in_blocks_of_any_size(data: bytes, block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK", block)
        assert crc32c(data) == crc32c(np.frombuffer(data, np.uint8)) == bit_by_bit(data)


def test_the_mask_is_leveldbs() -> None:
    """Rotated by 15 bits, plus a constant (`util/crc32c.h`)."""
    assert masked(0) == 0xA282EAD8
    assert masked(1 << 15) == 0xA282EAD9
    assert masked(0xFFFFFFFF) == 0xA282EAD7
