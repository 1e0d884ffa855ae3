"""What tracefs says of its binary pages: the `format` file of each event, and `events/header_page`.

Parsers of texts only. Source of the forms: Documentation/trace/events.rst and kernel/trace/ring_buffer.c of Linux.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

_FIELD: Final = re.compile(
    r"^\tfield:(?P<what>[^;]+);\toffset:(?P<offset>\d+);\tsize:(?P<size>\d+);(\tsigned:(?P<signed>[01]);)?$"
)

MAX_NUMBER: Final = (1 << 16) - 1
"""Of an event: it has 16 bits in a page."""

MAX_PAGE: Final = 1 << 16
"""Bytes of a page, on machines with the largest ones."""

_NAME: Final = re.compile(r"(?P<name>\w+)(\[[^\]]*\])?$")


class FormatError(ValueError):
    """A text is not as tracefs writes it."""


class Field(NamedTuple):
    """One field of an event, in bytes from the event's begin.

    `dynamic` ones hold, in 4 bytes, where their text is (the low half) and how long (the high half).
    """

    offset: int
    size: int
    signed: bool
    dynamic: bool


@dataclass(frozen=True, slots=True)
class Format:
    """How the events of one kind are laid out.

    Attributes:
        name: as `sched_switch`.
        number: by which pages know it.
        fields: by name.

    """

    name: str
    number: int
    fields: dict[str, Field]


class Header(NamedTuple):
    """How a page begins: its time (8 bytes at 0), then how many bytes are used at `commit`; events follow at `data`."""

    commit: int
    data: int
    page: int


def parse_format(text: str, *, place: str = "format") -> Format:
    """An event's `format` file.

    Args:
        text: of the file.
        place: what errors call it.

    Raises:
        FormatError: it has no name, no number or a field that cannot be read.

    """
    name = re.search(r"^name: (\S+)$", text, re.MULTILINE)
    number = re.search(r"^ID: (\d+)$", text, re.MULTILINE)
    if name is None or number is None or len(number[1]) > 5 or int(number[1]) > MAX_NUMBER:
        what = f"the format of an event, with lines `name:` and `ID:`, a number up to {MAX_NUMBER:,}"
        raise FormatError(f"{place}: expected {what}, got {text[:60]!r}")
    return Format(name[1], int(number[1]), _fields(text, place))


def parse_header_page(text: str, *, place: str = "header_page") -> Header:
    """The file `events/header_page`.

    Raises:
        FormatError: `timestamp` is not in the first 8 bytes, `commit` or `data` is missing or elsewhere, or a page has
            more than `MAX_PAGE` bytes.

    """
    fields = _fields(text, place)
    if not {"timestamp", "commit", "data"} <= fields.keys() or fields["timestamp"][:2] != (0, 8):
        raise FormatError(f"{place}: expected fields timestamp (at 0, 8 bytes), commit and data, got {sorted(fields)}")
    data, commit = fields["data"], fields["commit"].offset
    header = Header(commit, data.offset, data.offset + data.size)
    if not (
        8 <= commit <= header.data - 4 and header.data % 4 == 0 and header.page % 8 == 0 and header.page <= MAX_PAGE
    ):
        raise FormatError(f"{place}: expected pages of at most {MAX_PAGE:,} bytes, in whole 8 bytes, got {header}")
    return header


def _fields(text: str, place: str) -> dict[str, Field]:
    fields = {}
    for line in text.splitlines():
        if not line.lstrip().startswith("field:"):
            continue
        found = _FIELD.match(line)
        name = found and _NAME.search(found["what"])
        if not found or not name:
            raise FormatError(f"{place}: expected `field:TYPE NAME; offset:N; size:N;`, got {line!r}")
        dynamic = found["what"].startswith("__data_loc ")
        fields[name["name"]] = Field(int(found["offset"]), int(found["size"]), found["signed"] == "1", dynamic)
    return fields
