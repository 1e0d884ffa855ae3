"""The memory that a page uses in the browser."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import CDPSession


@dataclass(frozen=True, slots=True)
class Held:
    """The objects of a page after its garbage was collected.

    Attributes:
        heap_bytes: the heap of JavaScript.
        nodes: those of all documents, in the tree and only referenced.
        listeners: those of events.

    """

    heap_bytes: float
    nodes: float
    listeners: float


def held(session: CDPSession) -> Held:
    """Collect garbage and count; for a session of the page's, on which `Performance.enable` was sent."""
    session.send("HeapProfiler.collectGarbage")
    session.send("HeapProfiler.collectGarbage")  # objects that objects with a finalizer kept
    told = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
    return Held(told["JSHeapUsedSize"], told["Nodes"], told["JSEventListeners"])
