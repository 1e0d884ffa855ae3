from __future__ import annotations

import math
import struct
from typing import Any

import msgpack
import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from laggard.pipeline.core.engine import snapshots
from laggard.pipeline.core.engine.snapshots import SnapshotError, decode_state, encode_state, state_bytes

DTYPES = ["<f8", "<f4", "<i8", "<i4", "<i2", "|i1", "<u8", "<u4", "<u2", "|u1", "|b1"]


def raw_bytes(length: int) -> st.SearchStrategy[bytes]:
    return st.binary(min_size=length, max_size=length)


floats = st.binary(min_size=8, max_size=8).map(lambda raw: struct.unpack("<d", raw)[0])
arrays = st.sampled_from(DTYPES).flatmap(
    lambda name: hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4).flatmap(
        lambda shape: raw_bytes(math.prod(shape) * np.dtype(name).itemsize).map(
            lambda raw: (
                (np.frombuffer(raw, "|u1") % 2 if name == "|b1" else np.frombuffer(raw, name))
                .astype(name)
                .reshape(shape)
            )
        )
    )
)
plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | floats
    | st.text(max_size=10)
    | st.binary(max_size=10)
    | arrays,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
states = st.dictionaries(st.text(max_size=5), plain, max_size=4)


def same(one: Any, other: Any) -> bool:
    """Equal in every bit, with the same types."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return bool(one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes())
    if isinstance(one, float):
        return struct.pack("<d", one) == struct.pack("<d", other)
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def wrapped(state: object, **also: object) -> bytes:
    return zstandard.compress(msgpack.packb({"v": 1, "state": state, **also}))


@settings(max_examples=50)
@given(states)
def test_what_goes_in_comes_out(state: dict[str, Any]) -> None:
    encoded = encode_state(state)
    assert same(decode_state(encoded, "here"), state)
    assert encode_state(decode_state(encoded, "here")) == encoded
    assert state_bytes(encoded) == len(zstandard.decompress(encoded))


def test_an_array_may_be_written_to_and_is_a_copy() -> None:
    array = np.arange(6.0).reshape(2, 3)
    encoded = encode_state({"a": array[:, ::2]})
    array[:] = 0
    read = decode_state(encoded, "here")["a"]
    assert read.tolist() == [[0.0, 2.0], [3.0, 5.0]]
    read += 1


@pytest.mark.parametrize(
    ("made", "back"),
    [(np.array([1, 256], ">i4"), np.array([1, 256], "<i4")), (("x", 1), ["x", 1])],
    ids=["another byte order as little", "a tuple as a list"],
)
def test_what_is_plain_comes_back_in_one_form(made: object, back: object) -> None:
    assert same(decode_state(encode_state({"a": made}), "here"), {"a": back})


@pytest.mark.parametrize(
    ("state", "where"),
    [
        ({"a": [0, {"b": object()}]}, "state.a[1].b: expected plain data or an array, got object"),
        ({"a": {1: 2}}, "state.a: expected text as keys, got 1"),
        ({"a": np.array(["x"])}, "state.a: expected an array of booleans"),
        ({"a": np.array([None])}, "state.a: expected an array of booleans"),
        ({"a": np.array([1j])}, "state.a: expected an array of booleans"),
        ({"a": np.zeros((1,) * 9)}, "with at most 8 dimensions"),
        ({"a": 1 << 64}, "state.a: expected an integer of 64 bits"),
        ({"a": np.int64(1)}, "state.a: expected plain data or an array, got int64"),
    ],
)
def test_what_is_not_plain(state: dict[str, Any], where: str) -> None:
    with pytest.raises(SnapshotError) as raised:
        encode_state(state)
    assert where in str(raised.value)


def test_too_deep() -> None:
    state: dict[str, Any] = {}
    for _ in range(snapshots.MAX_DEPTH):
        state = {"a": state}
    with pytest.raises(SnapshotError, match="32 levels"):
        encode_state(state)


def test_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "MAX_STATE_BYTES", 1000)
    with pytest.raises(SnapshotError, match="at most 1,000 bytes"):
        encode_state({"a": np.zeros(200)})
    with pytest.raises(SnapshotError, match="here: expected at most 1,000 bytes"):
        decode_state(zstandard.compress(bytes(2000)), "here")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"", "a whole zstandard frame"),
        (b"junk" * 10, "a whole zstandard frame"),
        (encode_state({"a": np.arange(100)})[:-3], "a whole zstandard frame"),
        (zstandard.compress(b"\xc1"), "MessagePack"),
        (zstandard.compress(b""), "MessagePack"),
        (zstandard.compress(b"\x91" * 5000), "MessagePack"),
        (zstandard.compress(b"\xdd\xff\xff\xff\xff"), "MessagePack"),
        (zstandard.compress(msgpack.packb([1])), "a map with the version"),
        (zstandard.compress(msgpack.packb({"state": {}})), "a map with the version"),
        (zstandard.compress(msgpack.packb({"v": 3, "state": {}})), "form 2, got 3"),
        (wrapped(3), "a map as state"),
        (wrapped({"a": msgpack.ExtType(2, b"")}), "extension 1, got 2"),
        (wrapped({"a": msgpack.ExtType(1, b"\x93")}), "MessagePack"),
        (wrapped({"a": msgpack.ExtType(1, msgpack.packb(["<f8", [1], b"1234567"]))}), "does not have 7 bytes"),
        (wrapped({"a": msgpack.ExtType(1, msgpack.packb(["<f8", [1 << 62, 1 << 62], b""]))}), "does not have 0 bytes"),
        (wrapped({"a": msgpack.ExtType(1, msgpack.packb(["<f8", [-1, -1], bytes(8)]))}), "as dtype, shape and bytes"),
        (wrapped({"a": msgpack.ExtType(1, msgpack.packb(["|O", [1], bytes(8)]))}), "as dtype, shape and bytes"),
    ],
)
def test_what_is_no_snapshot(value: bytes, expected: str) -> None:
    with pytest.raises(SnapshotError) as raised:
        decode_state(value, "gaussian in counters[0]@7")
    assert str(raised.value).startswith("gaussian in counters[0]@7: expected")
    assert expected in str(raised.value)


@given(st.binary(max_size=200) | st.binary(max_size=200).map(zstandard.compress))
def test_any_bytes_give_a_state_or_one_error(value: bytes) -> None:
    try:
        assert isinstance(decode_state(value, "here"), dict)
    except SnapshotError as error:
        assert str(error).startswith("here: ")  # noqa: PT017 - most bytes raise, some do not


@settings(max_examples=50)
@given(states, st.data())
def test_a_flipped_bit_is_an_error(state: dict[str, Any], data: st.DataObject) -> None:
    encoded = bytearray(encode_state(state))
    at = data.draw(st.integers(0, len(encoded) * 8 - 1))
    encoded[at // 8] ^= 1 << at % 8
    try:
        read = decode_state(bytes(encoded), "here")
    except SnapshotError:
        return
    assert same(read, state)  # a bit without a meaning
