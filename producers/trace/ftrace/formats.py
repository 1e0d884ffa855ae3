"""The descriptions of tracefs for its binary pages: the `format` file of each event, and `events/header_page`.

This module only parses texts. Source of the forms: Documentation/trace/events.rst and kernel/trace/ring_buffer.c of
Linux.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

_FIELD: Final = re.compile(
    r"^\tfield:(?P<what>[^;]+);\toffset:(?P<offset>\d+);\tsize:(?P<size>\d+);(\tsigned:(?P<signed>[01]);)?$"
)

MAX_NUMBER: Final = (1 << 16) - 1
"""The highest number of an event, which has 16 bits in a page."""

MAX_PAGE: Final = 1 << 16
"""The most bytes of a page, on machines with the largest ones."""

_NAME: Final = re.compile(r"(?P<name>\w+)(\[[^\]]*\])?$")


class FormatError(ValueError):
    """The text is not in the form of tracefs."""


class Field(NamedTuple):
    """A field of an event, in bytes from the event's start.

    `dynamic` fields hold, in 4 bytes, the place (low half) and the length (high half) of their text.
    """

    offset: int
    size: int
    signed: bool
    dynamic: bool


@dataclass(frozen=True, slots=True)
class Format:
    """The layout of the events of one kind.

    Attributes:
        name: its name, for example `sched_switch`.
        number: its number in pages.
        fields: the fields by name.

    """

    name: str
    number: int
    fields: dict[str, Field]


class Header(NamedTuple):
    """The header of a page: time (8 bytes at 0) and number of used bytes (at `commit`). Events begin at `data`."""

    commit: int
    data: int
    page: int


def parse_format(text: str, *, place: str = "format") -> Format:
    """Parse the `format` file of an event.

    Args:
        text: the text of the file.
        place: its name in errors.

    Raises:
        FormatError: it has no name, no number or an unreadable field.

    """
    name = re.search(r"^name: (\S+)$", text, re.MULTILINE)
    number = re.search(r"^ID: (\d+)$", text, re.MULTILINE)
    if name is None or number is None or len(number[1]) > 5 or int(number[1]) > MAX_NUMBER:
        what = f"the format of an event, with lines `name:` and `ID:`, a number up to {MAX_NUMBER:,}"
        raise FormatError(f"{place}: expected {what}, got {text[:60]!r}")
    return Format(name[1], int(number[1]), _fields(text, place))


def parse_header_page(text: str, *, place: str = "header_page") -> Header:
    """Parse the file `events/header_page`.

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
