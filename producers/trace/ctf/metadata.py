"""The metadata of a CTF trace: a text in TSDL, alone or in packets."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from laggard.producers.trace.ctf.tsdl import parse_metadata
from laggard.producers.trace.errors import TraceError

if TYPE_CHECKING:
    from pathlib import Path

    from laggard.producers.trace.ctf.types import Metadata

PACKET_MAGIC: Final = 0x75D11D57
_PACKET_HEADER_BYTES: Final = 37

LONGEST: Final = 64 << 20
"""The most bytes of a metadata file: all kernel events of LTTng need half a megabyte."""


def read_metadata(path: Path) -> Metadata:
    """Read the file `metadata` in the folder of a trace.

    Raises:
        TraceError: it is missing, unreadable, or not of CTF 1.8.

    """
    try:
        if path.stat().st_size > LONGEST:
            raise TraceError(path, f"expected at most {LONGEST >> 20} MiB of metadata")
        content = path.read_bytes()
    except OSError as error:
        raise TraceError(path, f"cannot be read: {error.strerror}") from error
    return parse_metadata(unpacked(content, path), path)


def unpacked(content: bytes, place: object) -> str:
    """Return the text of metadata that may be in packets.

    Raises:
        TraceError: it is neither a text nor whole packets.

    """
    for order in "<>":
        if content[:4] == struct.pack(f"{order}I", PACKET_MAGIC):
            return _joined(content, order, place)
    if content.lstrip()[:1] in (b"{", b"[", b"\x1e"):
        raise TraceError(place, "expected metadata of CTF 1.8, got JSON (CTF 2): record with CTF 1.8")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = ""
    if "trace" not in text or "{" not in text:
        what = "an empty file" if not content.strip() else "something else"
        raise TraceError(place, f"expected metadata of CTF 1.8 (a text in TSDL), got {what}")
    return text


def _joined(content: bytes, order: str, place: object) -> str:
    parts, at = [], 0
    while at < len(content):
        if len(content) - at < _PACKET_HEADER_BYTES:
            break  # the end of a cut copy: the part before may suffice
        magic, _, _, content_bits, packet_bits = struct.unpack_from(f"{order}I16sIII", content, at)
        if magic != PACKET_MAGIC or not _PACKET_HEADER_BYTES * 8 <= content_bits <= packet_bits:
            raise TraceError(place, f"found no packet of metadata at byte {at:,}")
        parts.append(content[at + _PACKET_HEADER_BYTES : at + content_bits // 8])
        at += packet_bits // 8
    return b"".join(parts).decode(errors="replace")
