"""MessagePack with bounds on the cost of hostile bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import msgpack

from laggard.pipeline.core.records.limits import MAX_PLAIN_BYTES, MAX_RECORD_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_FIELDS: Final = 10_000
"""The most fields of one map."""

MAX_ITEMS: Final = 100_000
"""The most items of one array."""

MAX_LARGE_FIELDS: Final = 64
"""The most fields of a record of more than `MAX_PLAIN_BYTES`, which is scanned before it is unpacked."""

_BYTE_STRINGS: Final = frozenset((0xC4, 0xC5, 0xC6))
_LIMITS: Final = {"max_map_len": MAX_FIELDS, "max_array_len": MAX_ITEMS, "max_ext_len": 0}


def pack_map(fields: Mapping[str, Any]) -> bytes:
    """Return the map as MessagePack, which `unpack_map` reads.

    Raises:
        ValueError: it is beyond a limit; the message says by how much.

    """
    packed = cast("bytes", msgpack.packb(fields))
    if len(packed) > MAX_PLAIN_BYTES:
        _weigh(packed)
    return packed


def unpack_map(packed: bytes) -> dict[Any, Any]:
    """Return the map that was packed.

    It needs memory in proportion to its byte strings, and at most some 130 MiB for the rest, whatever the bytes are.
    Extension types are refused. Of duplicate fields the last one counts.

    Raises:
        ValueError: the bytes are no such map, or are beyond a limit; the message says what they are instead.

    """
    if not packed:
        raise ValueError("no bytes")
    try:
        if len(packed) > MAX_PLAIN_BYTES:
            _weigh(packed)
        found = msgpack.unpackb(packed, **_LIMITS)
    except msgpack.StackError:
        raise ValueError("values nested too deeply") from None
    except (msgpack.UnpackException, RecursionError) as error:
        raise ValueError(str(error) or "bytes that are not MessagePack") from None
    except ValueError as error:
        raise ValueError(str(error) or "bytes that are not MessagePack") from None
    if isinstance(found, dict):
        return found
    raise ValueError(f"MessagePack of type {type(found).__name__}")


def _weigh(packed: bytes) -> None:
    """Refuse a map that is too large, or has too many bytes outside of byte strings: these become objects."""
    if len(packed) > MAX_RECORD_BYTES:
        raise ValueError(f"{len(packed):,} bytes")
    outline = msgpack.Unpacker(max_buffer_size=MAX_RECORD_BYTES, **_LIMITS)
    outline.feed(packed)
    count, plain = outline.read_map_header(), 0
    if count > MAX_LARGE_FIELDS:
        raise ValueError(f"{count:,} fields in more than {MAX_PLAIN_BYTES:,} bytes")
    for _ in range(count):
        start = outline.tell()
        outline.skip()
        after_name = outline.tell()
        outline.skip()
        plain += after_name - start
        if packed[after_name] not in _BYTE_STRINGS:
            plain += outline.tell() - after_name
        if plain > MAX_PLAIN_BYTES:
            raise ValueError(f"more than {MAX_PLAIN_BYTES:,} bytes that are not in byte strings")
