"""A boundary that the kernel tells of by a uprobe: what is asked of tracefs, and what its events mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from laggard.producers.trace.events import Kind
from laggard.producers.trace.steady import asked_for

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Probe:
    """One uprobe.

    Attributes:
        event: its name, a C identifier, unique in a recording.
        place: what tracefs wants to know: `BINARY:OFFSET[%return][(SEMAPHORE)]`.
        kind: `Kind.BEGIN` or `Kind.END`.
        service: whose requests it bounds.
        arguments: what is fetched, as tracefs's uprobe_events takes it: `uri=+0(%dx):ustring`.
        names: which of them are, in this order, what the request is called.
        name: what it is called where none of them is anything.

    """

    event: str
    place: str
    kind: Kind
    service: str
    arguments: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    name: str = ""

    def definition(self, group: str) -> str:
        """The line for `dynamic_events`."""
        # The kernel knows `%return` as a place's ending, whatever the letter in front is.
        return " ".join([f"p:{group}/{self.event}", self.place, *self.arguments])

    def text(self, parts: Sequence[str]) -> str:
        """What a `BEGIN` says: service and name."""
        name = asked_for(" ".join(part for part in parts if part))
        return f"{self.service}\t{name or self.name}"

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "event": self.event,
            "place": self.place,
            "kind": self.kind.name,
            "service": self.service,
            "arguments": list(self.arguments),
            "names": list(self.names),
            "name": self.name,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Probe:
        """From plain data.

        Raises:
            KeyError, TypeError: it is not of that form.

        """
        return cls(
            data["event"],
            data["place"],
            Kind[data["kind"]],
            data["service"],
            tuple(data["arguments"]),
            tuple(data["names"]),
            data["name"],
        )
