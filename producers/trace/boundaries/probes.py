"""A boundary that the kernel reports by a uprobe: its definition for tracefs, and the meaning of its events."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from laggard.producers.trace.events import Kind
from laggard.producers.trace.steady import asked_for

if TYPE_CHECKING:
    from collections.abc import Sequence


FAULT: Final = "(fault)"
"""The text of the kernel for memory that is not there."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A uprobe.

    Attributes:
        event: its name, a C identifier, unique in a recording.
        place: its place in the syntax of tracefs: `BINARY:OFFSET[%return][(SEMAPHORE)]`.
        kind: `Kind.BEGIN` or `Kind.END`.
        service: the service of its requests.
        arguments: the values to fetch, in the syntax of uprobe_events of tracefs: `uri=+0(%dx):ustring`.
        names: the arguments that make the name of the request, in this order.
        name: the name if these are all empty.
        variable: a variable whose value replaces the last of `names`, if the program has it in a table.
        entries: the arguments with the name and the value of entries of this table, one of which may be that variable.

    """

    event: str
    place: str
    kind: Kind
    service: str
    arguments: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    name: str = ""
    variable: str = ""
    entries: tuple[tuple[str, str], ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        """The arguments that `text` needs, in its order."""
        return *self.names, *chain.from_iterable(self.entries)

    def definition(self, group: str) -> str:
        """Return the line for `dynamic_events`."""
        # The kernel knows `%return` as the ending of a place, whichever letter is in front.
        return " ".join([f"p:{group}/{self.event}", self.place, *self.arguments])

    def text(self, parts: Sequence[str]) -> str:
        """Return the text of a `BEGIN`: service and name. The parts are the values of `texts`."""
        named, table = list(parts[: len(self.names)]), parts[len(self.names) :]
        value = next((value for key, value in zip(table[::2], table[1::2], strict=True) if key == self.variable), "")
        if self.variable and value not in ("", FAULT):
            named[-1] = value
        name = asked_for(" ".join(part for part in named if part))
        return f"{self.service}\t{name or self.name}"

    def to_json(self) -> dict[str, Any]:
        """Return the probe as plain data."""
        return {
            "event": self.event,
            "place": self.place,
            "kind": self.kind.name,
            "service": self.service,
            "arguments": list(self.arguments),
            "names": list(self.names),
            "name": self.name,
            "variable": self.variable,
            "entries": [list(entry) for entry in self.entries],
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Probe:
        """Read plain data.

        Raises:
            KeyError, TypeError: the data does not fit.

        """
        return cls(
            data["event"],
            data["place"],
            Kind[data["kind"]],
            data["service"],
            tuple(data["arguments"]),
            tuple(data["names"]),
            data["name"],
            data.get("variable", ""),  # not in recordings of older versions
            tuple((key, value) for key, value in data.get("entries", ())),
        )
