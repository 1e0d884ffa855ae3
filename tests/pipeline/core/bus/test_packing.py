"""Stored values come back bit for bit, and damaged ones as an error in bounded memory."""

from __future__ import annotations

import contextlib
import random
import struct
import threading
import tracemalloc

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from laggard.pipeline.core.bus.packing import MAX_VALUE_BYTES, pack, unpack


@given(
    st.binary(max_size=3_000)
    | st.builds(lambda piece, times: piece * times, st.binary(max_size=9), st.integers(0, 500))
)
def test_what_goes_in_comes_out(value: bytes) -> None:
    stored = pack(value)
    assert len(stored) <= len(value)
    assert unpack(stored, len(value)) == value


def test_short_and_random_values_stay_as_they_are() -> None:
    for value in (b"", b"\0" * 511, random.Random(0).randbytes(10_000)):
        assert pack(value) is value


def test_zeros_shrink() -> None:
    assert len(pack(b"\0" * 50_000)) < 100


@given(st.data())
def test_any_flipped_bit_is_found(data: st.DataObject) -> None:
    value = struct.pack("<500d", *[float(number % 7) for number in range(500)])
    stored = bytearray(pack(value))
    bit = data.draw(st.integers(0, len(stored) * 8 - 1))
    stored[bit // 8] ^= 1 << bit % 8
    with contextlib.suppress(ValueError):
        assert unpack(bytes(stored), len(value)) == value  # a bit that says nothing, such as a reserved one


@given(st.binary(max_size=200), st.integers(-5, 1 << 62))
def test_any_bytes_are_a_value_or_an_error(stored: bytes, size: int) -> None:
    with contextlib.suppress(ValueError):
        assert len(unpack(stored, size)) == size


@pytest.mark.parametrize("damage", ["size", "header", "bomb", "window"])
def test_a_lie_about_the_size_takes_no_memory(damage: str) -> None:
    bomb = zstandard.ZstdCompressor().compress(b"\0" * (4 * MAX_VALUE_BYTES if damage == "bomb" else 100_000))
    claimed = 1 << 40 if damage == "size" else 100_000
    if damage == "header":  # a frame that claims 2^60 bytes
        bomb = b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 1 << 60) + bomb[9:]
    if damage == "window":  # a frame without a size that wants a window of 2 GiB
        bomb = b"\x28\xb5\x2f\xfd\x00\xa8" + bomb[9:]
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="expected"):
            unpack(bomb, claimed)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_threads_pack_at_once() -> None:
    values = [bytes([number]) * 100_000 for number in range(4)]
    same = [True] * 4

    def work(number: int) -> None:
        for _ in range(30):
            same[number] &= unpack(pack(values[number]), 100_000) == values[number]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(same)
