r"""Boundaries that a program writes into the kernel's trace itself, through a `trace_marker` file.

The text of a marker, in UTF-8 and at most 1,000 bytes:

    laggard begin 17 shop\tGET /cart
    laggard end 17

The number is the request's: it must be unique among the open ones of a thread. Service and name have a tab between;
either may be empty. A write is one marker, and belongs to the writing thread.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from laggard.producers.trace.events import Kind
from laggard.producers.trace.steady import asked_for

_MARK: Final = re.compile(r"laggard (?P<edge>begin|end) (?P<request>\d{1,18})(?: (?P<text>.*))?", re.DOTALL)


class Mark(NamedTuple):
    """A boundary: its kind (`BEGIN` or `END`), the request's number, and service and name with a tab between."""

    kind: Kind
    request: int
    text: str


def parse_marker(text: str) -> Mark | None:
    """Parse a marker; None for other texts: other programs may write into the same file."""
    found = _MARK.fullmatch(text.rstrip("\n"))
    if found is None:
        return None
    if found["edge"] == "end":
        return Mark(Kind.END, int(found["request"]), "")
    service, _, name = (found["text"] or "").partition("\t")
    return Mark(Kind.BEGIN, int(found["request"]), f"{service}\t{asked_for(name)}")
