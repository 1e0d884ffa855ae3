"""Recognize files of other formats that were given as a trace, to name them."""

from __future__ import annotations

from typing import Final

BYTES: Final = 16
"""The number of first bytes of a file that are enough."""

_CTF: Final = "a part of a CTF trace: give its folder instead"
_BEGINNINGS: Final = {
    b"PERFILE2": "a recording of perf: `perf data convert --to-ctf FOLDER -i FILE --tod` converts it",
    b"\x17\x08Dtracing": "a recording of trace-cmd, which is not supported: record with `laggard trace start --output`",
    b"/* CTF 1.8": _CTF,
    b"\x57\x1d\xd1\x75": _CTF,
    b"\x75\xd1\x1d\x57": _CTF,
    b"\xc1\x1f\xfc\xc1": _CTF,
    b"\xc1\xfc\x1f\xc1": _CTF,
}


def other_format(begin: bytes) -> str:
    """Return the name of a known format by its beginning, with advice; empty for others."""
    return next((description for beginning, description in _BEGINNINGS.items() if begin.startswith(beginning)), "")
