"""Which of those that are alike count as a pool, and how many of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from laggard.pipeline.records import Layout, make_layout
from laggard.producers.host.pools.names import part

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MINIMUM: Final = 3
"""So many make a pool, unless it is said otherwise."""

SETTLED_S: Final = 10.0
"""So long they have to be there: what lives shorter, as the steps of a build do, is not compared over time."""

MAX_MEMBERS: Final = 5_000
MAX_POOLS: Final = 100
"""Of a machine, of threads and of processes each. Pools that are found later are left out, and counted."""

_MAX_KEY: Final = 253  # characters; that of records


class Member(NamedTuple):
    """One that may belong to a pool.

    Attributes:
        pool: whose key this is, below the host's.
        owner: row of the process that it is a thread or a child of.
        row: its own id, below the owner's.
        name: a path: what all members of the pool are called.
        place: where its values are.
        start_s: when it began, in seconds after boot.

    """

    pool: str
    owner: str
    row: str
    name: str
    place: int
    start_s: float


class Pool(NamedTuple):
    """A pool that counts.

    Attributes:
        key: of its frames.
        layout: names of its members.
        places: where their values are.

    """

    key: str
    layout: Layout
    places: list[int]


class Grouping:
    """Groups members by pool and owner.

    A group counts from when at least `minimum` of it have been there for a while, to when the last of it is gone: a
    pool whose members leave is one still.

    Args:
        host: what the keys begin with.
        features: of the members.
        minimum: so many make a pool.
        settled_s: so long each of these has been there.

    Attributes:
        waits: whether a group will count if only it stays.
        left_out: how many members were beyond a bound.

    """

    def __init__(
        self, host: str, features: Sequence[str], minimum: int = MINIMUM, settled_s: float = SETTLED_S
    ) -> None:
        self.waits = False
        self.left_out = 0
        self._host = host
        self._features = tuple(features)
        self._minimum = minimum
        self._settled_s = settled_s
        self._founded: dict[tuple[str, str], None] = {}  # pool and owner, in the order in which they came to count

    def group(self, members: Iterable[Member], boot_s: float) -> list[Pool]:
        """The pools that there are, `boot_s` seconds after boot."""
        groups: dict[tuple[str, str], list[Member]] = {}
        for member in members:
            groups.setdefault((member.pool, member.owner), []).append(member)
        founded = {group: None for group in self._founded if group in groups}
        self.waits = False
        for group, some in groups.items():
            if len(some) >= self._minimum and group not in founded:
                settled = sum(boot_s - member.start_s >= self._settled_s for member in some)
                if settled >= self._minimum:
                    founded[group] = None
                else:
                    self.waits = True
        self._founded = founded
        by_pool: dict[str, list[Member]] = {}
        for group in founded:
            by_pool.setdefault(group[0], []).extend(groups[group])
        return self._bounded(by_pool)

    def _bounded(self, by_pool: dict[str, list[Member]]) -> list[Pool]:
        pools: list[Pool] = []
        self.left_out, left = 0, MAX_MEMBERS
        for pool, members in by_pool.items():
            key = f"{self._host}/{pool}"
            if len(members) > left or len(pools) == MAX_POOLS or len(key) > _MAX_KEY:
                self.left_out += len(members)
                continue
            left -= len(members)
            layout = make_layout(
                [f"{part(member.owner)}/{part(member.row)}" for member in members],
                [member.name for member in members],
                self._features,
            )
            pools.append(Pool(key, layout, [member.place for member in members]))
        return pools
