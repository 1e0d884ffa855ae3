"""The records that producers publish: frames, marks and wishes, as plain immutable values; see also `requests`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

KeyedBy = Literal["host", "application", "pool", "service"]
"""The kind of a frame's key. Frames of services are made inside of a task, and are on no topic."""

WishKind = Literal["pin", "ban", "free"]
"""A person's wish for a metric: always in the models, never in them or neither."""

UNNUMBERED = -1
"""The sequence of a record whose producer does not number its records."""


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """The names of a frame's rows and features. Shared between frames; compared by identity, or by `packed`.

    Attributes:
        rows: ids, unique in the frame, the same from tick to tick: `nginx[4711@99]`. That of a process has its name,
            its pid and its start in clock ticks after boot, so that a reused pid is a new row.
        names: one per row, `nginx`; the parts of a path such as `host-3/worker-12` are levels of a top-down analysis.
        features: unique in the frame, each a counter whose name ends with its base unit, `memory_rss_bytes`.
        commands: one per row, the command line for people; empty if the producer sends none.
        packed: the same as MessagePack bytes, which are sent with each frame.
        users: one per row, the user that it runs as; empty if the producer sends none.
        containers: one per row, its container or otherwise its unit: `docker:3f2a8b4c5d6e`, `nginx.service`; likewise.

    """

    rows: tuple[str, ...]
    names: tuple[str, ...]
    features: tuple[str, ...]
    commands: tuple[str, ...]
    packed: bytes
    users: tuple[str, ...] = ()
    containers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """All rows and features of one scope at one tick.

    Attributes:
        keyed_by: the kind of `key`.
        key: the host, application, pool or service.
        scope: the kind of the rows: `process`, `thread`, `host`, `performance`, `member`, ...
        ts: the producer's time of the tick, seconds since the Unix epoch.
        sequence: the ever growing number of a key's record; `UNNUMBERED` if the producer does not number them.
        layout: names of rows and features.
        values: float64, shape (rows, features), NaN for a value that is missing at this tick. Read-only.
        hosts: for an application, the hosts that serve it; empty for all hosts of the stream. For a pool, the host of
            these members; empty if the frame has those of all hosts.

    """

    keyed_by: KeyedBy
    key: str
    scope: str
    ts: float
    sequence: int
    layout: Layout
    values: NDArray[np.float64]
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Mark:
    """`It is slow now`, from a person or a program (S0, section 3: the frustration event; section 6: its note)."""

    host: str
    ts: float
    note: str = ""
    sequence: int = UNNUMBERED


@dataclass(frozen=True, slots=True)
class Wish:
    """A person's wish for one metric in the performance models of an application (S2, section 6).

    Attributes:
        application: the record's key.
        ts: its time, seconds since the Unix epoch.
        metric: its row and its feature, separated by the last colon: `web-1/nginx:cpu_wait_ratio`.
        wish: `pin` it into the models, `ban` it from them, or `free` it from either.
        sequence: see `Frame`.

    """

    application: str
    ts: float
    metric: str
    wish: WishKind
    sequence: int = UNNUMBERED
