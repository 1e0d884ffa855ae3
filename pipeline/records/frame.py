"""The words that travel: frames, marks and wishes, as plain immutable values; for requests see `requests`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

KeyedBy = Literal["host", "application", "pool", "service"]
"""What a frame's key names. Frames of services are counted inside of a task, and on no topic."""

WishKind = Literal["pin", "ban", "free"]
"""What a person wants of a metric: always in the models, never, or neither."""

UNNUMBERED = -1
"""The sequence of a record whose producer does not number them."""


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """The names of a frame's rows and features. Shared between frames; compared by identity, or by `packed`.

    Attributes:
        rows: ids, unique in the frame, the same from tick to tick: `nginx[4711@99]`, for a process its name, its pid
            and its start in clock ticks after boot, so that a reused pid is a new row.
        names: one per row, `nginx`; a path such as `host-3/worker-12` has the levels of a top-down analysis as parts.
        features: unique in the frame, each a counter in a base unit that it names, `memory_rss_bytes`.
        commands: one per row, the command line for a person to read; empty where the producer sends none.
        packed: the same as MessagePack bytes, which travel with each frame.
        users: one per row, as whom it runs; empty where the producer sends none, as what follows.
        containers: one per row, the container that it runs in, else its unit: `docker:3f2a8b4c5d6e`, `nginx.service`.

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
        keyed_by: what `key` names.
        key: the host, application, pool or service.
        scope: what the rows are: `process`, `thread`, `host`, `performance`, `member`, ...
        ts: the producer's time of the tick, seconds since the Unix epoch.
        sequence: numbers a key's records, ever growing; `UNNUMBERED` where the producer does not.
        layout: names of rows and features.
        values: float64, shape (rows, features), NaN where a value is not there at this tick. Read-only.
        hosts: for an application, the hosts that serve it; empty for all hosts of the stream. For a pool, the host
            whose members these are; empty where the frame has those of all hosts.

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
    """What a person wants of one metric in the performance models of an application (S2, section 6).

    Attributes:
        application: the record's key.
        ts: when, seconds since the Unix epoch.
        metric: by its row and its feature, `web-1/nginx:cpu_wait_ratio`; the feature is what follows the last colon.
        wish: `pin` it into the models, `ban` it from them, or `free` it from either.
        sequence: see `Frame`.

    """

    application: str
    ts: float
    metric: str
    wish: WishKind
    sequence: int = UNNUMBERED
