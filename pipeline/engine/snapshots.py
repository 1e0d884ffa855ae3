"""Snapshots as bytes: plain data and arrays as MessagePack, compressed by zstandard. Never pickle.

A snapshot is one zstandard frame around one MessagePack map: `v`, the version of this form, and `state`; other fields
are passed over. An array is an extension of type 1 that holds `[dtype, shape, bytes]`, little-endian, in C order.
Reading takes no more memory than `MAX_STATE_BYTES` and a small multiple of it, whatever the bytes are.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import msgpack
import numpy as np
import zstandard

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Migration = Callable[[dict[str, Any]], dict[str, Any]]
    """Makes a newer version's state of an older one's; a pure function, which may take its argument apart."""

VERSION: Final = 2
"""Of the form, and of what a task keeps of a key and of a stream. See `migrations.py` before it is raised."""


def _without_offsets(state: dict[str, Any]) -> dict[str, Any]:
    """Make a state of form 2 of one of form 1, which had offsets in it. Counts of records go on from the offset."""
    if "base" in state:
        return {"base": state["base"], "counted": state["base"]}
    for stream in state["streams"].values():
        stream.pop("offset", None)
    if "ticks" in state:
        state["ticks"].pop("offset", None)
        for source in state["ticks"].get("sources", ()):
            source["waiting"] = [[ts, live, parts] for ts, _, live, parts in source["waiting"]]
    if "intervals" in state:
        waiting = state["intervals"]["waiting"]
        state["intervals"]["waiting"] = [[begin_ts, frame, live] for begin_ts, frame, _, live in waiting]
    return state


MIGRATIONS: Final[Mapping[int, Migration]] = {1: _without_offsets}
"""By an older version, what makes the next version's state of it."""

BASE_KEY: Final = ""
"""The key of the snapshot that holds the base, see `states`; no record that has a state has this key."""

MAX_STATE_BYTES: Final = 256 << 20
"""Of a state before compression."""

MAX_DEPTH: Final = 32
MAX_DIMENSIONS: Final = 8

_ARRAY: Final = 1
_DTYPES: Final = {
    name: np.dtype(name) for name in ("<f8", "<f4", "<i8", "<i4", "<i2", "|i1", "<u8", "<u4", "<u2", "|u1", "|b1")
}
_LEVEL: Final = 1


class SnapshotError(ValueError):
    """A state that cannot be written, or bytes that are no snapshot of this form; says where and what was expected."""


def encode_state(state: Mapping[str, Any], most_bytes: int = MAX_STATE_BYTES) -> bytes:
    """A state as bytes: the same state always gives the same bytes.

    Args:
        state: dictionaries with text keys, lists, tuples (which come back as lists), text, bytes, booleans, None,
            integers of 64 bits, floats, and arrays of booleans, integers and floats.
        most_bytes: how long the result may be.

    Raises:
        SnapshotError: something else is in it, and the message says where; or it is too much.

    """
    packed = msgpack.packb({"v": VERSION, "state": _plain(state, "state", MAX_DEPTH)}, use_bin_type=True)
    if len(packed) > MAX_STATE_BYTES:
        raise SnapshotError(f"state: expected at most {MAX_STATE_BYTES:,} bytes, got {len(packed):,}")
    # The checksum turns a flipped bit into an error instead of a wrong state.
    encoded = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compress(packed)
    if len(encoded) > most_bytes:
        raise SnapshotError(f"state: expected at most {most_bytes:,} compressed bytes, got {len(encoded):,}")
    return encoded


def decode_state(value: bytes, place: str) -> dict[str, Any]:
    """The state that was encoded, bit for bit; see `read_state`."""
    return read_state(value, place)[0]


def read_state(value: bytes, place: str) -> tuple[dict[str, Any], bool]:
    """The state that was encoded, and whether it was of an older form. Its arrays are copies that may be written to.

    Args:
        value: any bytes.
        place: where they come from, for errors: `snapshot gaussian counters[0] 'web-1'@1042`.

    Raises:
        SnapshotError: they are no snapshot of this form.

    """
    try:
        size = zstandard.get_frame_parameters(value).content_size
        # A frame without its size in the header answers a huge number here, and was not written by `encode_state`.
        if size > MAX_STATE_BYTES:
            raise SnapshotError(f"{place}: expected at most {MAX_STATE_BYTES:,} bytes, the header says {size:,}")
        packed = zstandard.ZstdDecompressor(max_window_size=MAX_STATE_BYTES).decompress(value, max_output_size=size)
    except zstandard.ZstdError as error:
        raise SnapshotError(f"{place}: expected a whole zstandard frame: {error}") from None
    try:
        read = msgpack.unpackb(packed, raw=False, strict_map_key=True, ext_hook=_array, max_ext_len=len(packed))
    except (ValueError, msgpack.UnpackException, RecursionError) as error:
        raise SnapshotError(f"{place}: expected MessagePack: {error or type(error).__name__}") from None
    if not isinstance(read, dict) or not isinstance(read.get("v"), int):
        raise SnapshotError(f"{place}: expected a map with the version of its form")
    state = read.get("state")
    if not isinstance(state, dict):
        raise SnapshotError(f"{place}: expected a map as state")
    return _migrated(state, read["v"], place), read["v"] < VERSION


def _migrated(state: dict[str, Any], version: int, place: str) -> dict[str, Any]:
    if version > VERSION:
        raise SnapshotError(f"{place}: expected form {VERSION}, got {version}: a newer laggard wrote it")
    while version < VERSION:
        step = MIGRATIONS.get(version)
        if step is None:
            raise SnapshotError(f"{place}: expected form {VERSION}, got {version}: an older laggard wrote it")
        state, version = step(state), version + 1
    return state


def state_bytes(value: bytes) -> int:
    """The size of an encoded state before compression."""
    return int(zstandard.get_frame_parameters(value).content_size)


def _plain(value: Any, path: str, depth: int) -> Any:
    """The same with arrays as extensions. Raises SnapshotError naming the part that is no plain data."""
    match value:
        case None | bool() | str() | bytes() | float():
            return value
        case int():
            if -(1 << 63) <= value < (1 << 64):
                return value
            raise SnapshotError(f"{path}: expected an integer of 64 bits, got {value.bit_length()} bits")
        case np.ndarray():
            return _extension(value, path)
        case dict() | list() | tuple() if depth == 0:
            raise SnapshotError(f"{path}: expected at most {MAX_DEPTH} levels")
        case dict():
            for key in value:
                if not isinstance(key, str):
                    raise SnapshotError(f"{path}: expected text as keys, got {key!r}")
            return {key: _plain(part, f"{path}.{key}", depth - 1) for key, part in value.items()}
        case list() | tuple():
            return [_plain(part, f"{path}[{at}]", depth - 1) for at, part in enumerate(value)]
    raise SnapshotError(f"{path}: expected plain data or an array, got {type(value).__name__}")


def _extension(array: np.ndarray[Any, Any], path: str) -> msgpack.ExtType:
    name = array.dtype.newbyteorder("<").str
    if name not in _DTYPES or array.ndim > MAX_DIMENSIONS:
        raise SnapshotError(
            f"{path}: expected an array of booleans, integers or floats with at most {MAX_DIMENSIONS} dimensions, "
            f"got {array.dtype} with {array.ndim}"
        )
    data = np.ascontiguousarray(array, dtype=_DTYPES[name])
    return msgpack.ExtType(_ARRAY, msgpack.packb([name, list(array.shape), data.tobytes()], use_bin_type=True))


def _array(code: int, data: bytes) -> np.ndarray[Any, Any]:
    if code != _ARRAY:
        raise ValueError(f"expected extension {_ARRAY}, got {code}")
    match msgpack.unpackb(data, raw=False, max_ext_len=0):
        case [str(name), list(shape), bytes(raw)] if name in _DTYPES and len(shape) <= MAX_DIMENSIONS:
            dtype = _DTYPES[name]
            if all(type(length) is int and length >= 0 for length in shape):
                if math.prod(shape) * dtype.itemsize != len(raw):
                    raise ValueError(f"an array of {name} with shape {shape} does not have {len(raw)} bytes")
                return np.frombuffer(raw, dtype).reshape(shape).copy()
    raise ValueError("expected an array as dtype, shape and bytes")
