"""Paths and addresses in the arguments of system calls, as additional events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from laggard.producers.trace.ctf.addresses import address, packed
from laggard.producers.trace.events import NO_TEXT, Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from laggard.producers.trace.ctf.columns import Columns

_PATHS: Final = ("filename", "pathname", "path", "oldname", "name")
"""The arguments of system calls that are paths; of two paths, the first."""

Extra = tuple["NDArray[np.bool_]", "NDArray[np.void]"]
"""Additional events: a mask of the events that they belong to, and the events."""


def named(columns: Columns, rows: NDArray[np.void], *, opens: bool) -> Sequence[Extra]:
    """Return the path argument of a call; if the call opens it, also for the descriptor that it returns."""
    paths = columns.texts(*_PATHS)
    if paths is None:
        return ()
    every = np.ones(len(rows), np.bool_)
    path = rows.copy()
    path["kind"], path["text"] = Kind.PATH, paths
    path["a"] = path["b"] = path["c"] = 0
    if not opens:
        return [(every, path)]
    opened = path.copy()
    opened["kind"], opened["a"] = Kind.OPENED, -1
    return [(every, path), (every, opened)]


def _addresses(columns: Columns, port: str, *, hidden: bool) -> NDArray[np.int32] | None:
    walked, ports = columns.walked(), columns.integers(port)
    if not walked or ports is None:
        return None
    places = []
    for fields, number in zip(walked, ports.tolist(), strict=True):
        where = packed(fields.get("v4addr")) or packed(fields.get("v6addr"))
        text = address(where, "*" if hidden else number & 0xFFFF)
        places.append(columns.table.place(text) if text else NO_TEXT)
    return np.array(places, np.int32)


def connected(columns: Columns, rows: NDArray[np.void]) -> Sequence[Extra]:
    """Return the address that the descriptor leads to."""
    places = _addresses(columns, "dport", hidden=False)
    return () if places is None else _opened(rows, places, places != NO_TEXT)


def accepted(columns: Columns, rows: NDArray[np.void]) -> Sequence[Extra]:
    """Return the remote address of the new connection, without its port, which differs each time."""
    places = _addresses(columns, "sport", hidden=True)
    return () if places is None else _opened(rows, places, (places != NO_TEXT) & (rows["b"] >= 0))


def _opened(rows: NDArray[np.void], places: NDArray[np.int32], known: NDArray[np.bool_]) -> Sequence[Extra]:
    """Return the addresses of the descriptors of calls whose address is known."""
    extra = rows.copy()
    extra["kind"], extra["text"] = Kind.OPENED, places
    extra["a"], extra["b"], extra["c"] = rows["b"], 0, 0
    return [(known, extra[known])]
