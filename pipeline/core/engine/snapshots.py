"""Snapshots as bytes: plain data and arrays as MessagePack, compressed by zstandard. Never pickle.

A snapshot is one zstandard frame around one MessagePack map: `v`, the version of this form, and `state`; other fields
are ignored. An array is an extension of type 1 that holds `[dtype, shape, bytes]`, little-endian, in C order.

For any bytes, reading needs at most three times `MAX_STATE_BYTES` of memory, and about 90 bytes for each of
`MAX_ITEMS`. Declared sizes are checked before anything is allocated: an item of one byte needs up to 88, and a list
allocates the length in its header at once.
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
"""The version of the form, and of a task's state of a key and of a stream. See `migrations.py` before raising it."""


def _without_offsets(state: dict[str, Any]) -> dict[str, Any]:
    """Migrate a state of form 1, which contained offsets, to form 2. Counts of records continue from the offset."""
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
"""The migrations to the next version, by the older version."""

BASE_KEY: Final = ""
"""The key of the snapshot that holds the base, see `states`; no record that has a state has this key."""

MAX_STATE_BYTES: Final = 128 << 20
"""The most bytes of a state before compression."""

MAX_ITEMS: Final = 1 << 20
"""The most numbers, texts, lists, maps and arrays of a state; an array is one. States of laggard have under 10,000."""

MAX_DEPTH: Final = 32
MAX_DIMENSIONS: Final = 8

_ARRAY: Final = 1
_DTYPES: Final = {
    name: np.dtype(name) for name in ("<f8", "<f4", "<i8", "<i4", "<i2", "|i1", "<u8", "<u4", "<u2", "|u1", "|b1")
}
_LEVEL: Final = 1
_HEAD_BYTES: Final = 96
_NO_ARRAY: Final = "expected an array as dtype, shape and bytes"


class SnapshotError(ValueError):
    """An invalid state, or bytes that are not a snapshot of this form, with the place and the expected content."""


def encode_state(state: Mapping[str, Any], most_bytes: int = MAX_STATE_BYTES) -> bytes:
    """Return a state as bytes: the same state always gives the same bytes.

    Args:
        state: dictionaries with text keys, lists, tuples (which come back as lists), text, bytes, booleans, None,
            integers of 64 bits, floats, and arrays of booleans, integers and floats.
        most_bytes: the most bytes of the result.

    Raises:
        SnapshotError: the state contains something else, at the place in the message, or is too large.

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
    """Return an encoded state, bit for bit; see `read_state`."""
    return read_state(value, place)[0]


def read_state(value: bytes, place: str) -> tuple[dict[str, Any], bool]:
    """Return an encoded state, and whether it was of an older form. Its arrays are writable copies.

    Args:
        value: any bytes.
        place: their origin, for errors: `snapshot gaussian counters[0] 'web-1'@1042`.

    Raises:
        SnapshotError: they are not a snapshot of this form or an older one.

    """
    try:
        size = zstandard.get_frame_parameters(value).content_size
        # The size of a frame without one in its header is a huge number. `encode_state` does not write such frames.
        if size > MAX_STATE_BYTES:
            raise SnapshotError(f"{place}: expected at most {MAX_STATE_BYTES:,} bytes, the header says {size:,}")
        packed = zstandard.ZstdDecompressor(max_window_size=MAX_STATE_BYTES).decompress(value, max_output_size=size)
    except (zstandard.ZstdError, MemoryError) as error:
        raise SnapshotError(f"{place}: expected a whole zstandard frame: {error}") from None
    try:
        _check_items(packed)
        read = msgpack.unpackb(packed, raw=False, strict_map_key=True, ext_hook=_array, max_ext_len=len(packed))
    except Exception as error:  # noqa: BLE001 - msgpack raises many kinds, such as BufferError and MemoryError
        raise SnapshotError(f"{place}: expected MessagePack: {str(error) or type(error).__name__}") from None
    if not isinstance(read, dict) or not isinstance(read.get("v"), int):
        raise SnapshotError(f"{place}: expected a map with the version of its form")
    state = read.get("state")
    if not isinstance(state, dict):
        raise SnapshotError(f"{place}: expected a map as state")
    try:
        return _migrated(state, read["v"], place), read["v"] < VERSION
    except SnapshotError:
        raise
    except Exception as error:  # noqa: BLE001 - a migration expects a state that this version wrote
        raise SnapshotError(f"{place}: expected a state of form {read['v']}: {type(error).__name__}: {error}") from None


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
    """Return the size of an encoded state before compression."""
    return int(zstandard.get_frame_parameters(value).content_size)


def _plain(value: Any, path: str, depth: int) -> Any:
    """Return the value with arrays as extensions. Raises SnapshotError that names a part that is not plain data."""
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


def _check_items(packed: bytes) -> None:
    """Raise for an incomplete value, or for one of too many items, without building it."""
    if len(packed) > MAX_ITEMS:
        if not _are_few(packed):
            raise ValueError(f"expected one value of at most {MAX_ITEMS:,} items")
        return
    # A complete value of this length cannot have more items.
    unpacker = msgpack.Unpacker(max_buffer_size=len(packed), read_size=1)
    unpacker.feed(packed)
    unpacker.skip()


def _are_few(packed: bytes) -> bool:
    """Return whether this is one whole MessagePack value of at most `MAX_ITEMS` items."""
    at, left = 0, 1
    for seen in range(MAX_ITEMS):
        if not left or left > min(len(packed) - at, MAX_ITEMS - seen):  # each has at least one byte
            break
        head = packed[at]
        at += 1
        left -= 1
        if head <= 0x7F or head >= 0xE0:
            continue
        if head <= 0x8F:
            left += 2 * (head & 0x0F)
        elif head <= 0x9F:
            left += head & 0x0F
        elif head <= 0xBF:
            at += head & 0x1F
        else:
            width, follows, items = _HEADS[head - 0xC0]
            length = int.from_bytes(packed[at : at + width], "big")
            at += width + follows + (0 if items else length)
            left += items * length
    return not left and at == len(packed)


_HEADS: Final = (
    (0, 0, 0), (0, 0, 0), (0, 0, 0), (0, 0, 0),  # nil, unused, false and true
    (1, 0, 0), (2, 0, 0), (4, 0, 0),  # bytes
    (1, 1, 0), (2, 1, 0), (4, 1, 0),  # extensions
    (0, 4, 0), (0, 8, 0),  # floats
    (0, 1, 0), (0, 2, 0), (0, 4, 0), (0, 8, 0),  # integers
    (0, 1, 0), (0, 2, 0), (0, 4, 0), (0, 8, 0),  # those with a sign
    (0, 2, 0), (0, 3, 0), (0, 5, 0), (0, 9, 0), (0, 17, 0),  # short extensions
    (1, 0, 0), (2, 0, 0), (4, 0, 0),  # text
    (2, 0, 1), (4, 0, 1), (2, 0, 2), (4, 0, 2),  # lists and maps
)  # fmt: skip
"""By the first byte of an item, from 0xC0 on: the bytes of its length field, the further bytes, and the number of items
for each unit of the length."""


def _array(code: int, data: bytes) -> np.ndarray[Any, Any]:
    if code != _ARRAY:
        raise ValueError(f"expected extension {_ARRAY}, got {code}")
    # Only the head is unpacked: the data behind it may be long, and is raw after its length field.
    unpacker = msgpack.Unpacker(read_size=_HEAD_BYTES, max_buffer_size=_HEAD_BYTES, max_str_len=3)
    unpacker.feed(data[:_HEAD_BYTES])
    if unpacker.read_array_header() != 3 or (name := unpacker.unpack()) not in _DTYPES:
        raise ValueError(_NO_ARRAY)
    dimensions = unpacker.read_array_header()
    if dimensions > MAX_DIMENSIONS:
        raise ValueError(_NO_ARRAY)
    shape = [unpacker.unpack() for _ in range(dimensions)]
    width = {0xC4: 1, 0xC5: 2, 0xC6: 4}.get(data[unpacker.tell()], 0)
    begin = unpacker.tell() + 1 + width
    length = int.from_bytes(data[begin - width : begin], "big")
    if not width or len(data) - begin != length or not all(type(each) is int and each >= 0 for each in shape):
        raise ValueError(_NO_ARRAY)
    dtype = _DTYPES[name]
    if math.prod(shape) * dtype.itemsize != length:
        raise ValueError(f"an array of {name} with shape {shape} does not have {length} bytes")
    return np.frombuffer(data, dtype, offset=begin).reshape(shape).copy()
