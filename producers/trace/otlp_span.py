"""A span as services report it, whatever its encoding."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


class SpanKind(IntEnum):
    """The kinds of spans."""

    UNSPECIFIED = 0
    INTERNAL = 1
    SERVER = 2
    CLIENT = 3
    PRODUCER = 4
    CONSUMER = 5


KINDS: Final[dict[int | str, SpanKind]] = {
    **{kind.value: kind for kind in SpanKind},
    **{f"SPAN_KIND_{kind.name}": kind for kind in SpanKind},
}
"""The kinds by their numbers and by their names."""


@dataclass(slots=True, eq=False)
class Span:
    """An operation with its duration, and its parent.

    Attributes:
        trace: the id of its trace; `span` is its own id, `parent` that of its parent, empty for a root.
        service: its service, on `host`.
        begin_ns: the start since the Unix epoch; `end_ns` is the end.
        attributes: the attributes, with numbers as text.
        error: the reason for a failure; empty for success.
        children: filled in by the code that builds a tree.

    """

    trace: str
    span: str
    parent: str
    service: str
    host: str
    name: str
    kind: SpanKind
    begin_ns: int
    end_ns: int
    attributes: Mapping[str, str]
    error: str = ""
    children: list[Span] = field(default_factory=list)
