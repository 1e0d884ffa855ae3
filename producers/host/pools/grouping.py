"""Decides which groups of similar members are pools, within bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from laggard.pipeline.core.records import Layout, make_layout
from laggard.producers.host.pools.names import part

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MINIMUM: Final = 3
"""The fewest members of a pool, by default."""

SETTLED_S: Final = 10.0
"""The least age of these, in seconds: short-lived ones, such as the steps of a build, are not compared over time."""

MAX_MEMBERS: Final = 5_000
MAX_POOLS: Final = 100
"""The bounds of a machine, for threads and for processes each. Pools found later are left out, with a count."""

_MAX_KEY: Final = 253  # characters, as in records


class Member(NamedTuple):
    """A possible member of a pool.

    Attributes:
        pool: the key of the pool, below that of the host.
        owner: the row of the process that it is a thread or a child of.
        row: its own id, below the owner's.
        name: a path: the name of all members of the pool.
        place: the index of its values.
        start_s: its start, in seconds after boot.

    """

    pool: str
    owner: str
    row: str
    name: str
    place: int
    start_s: float


class Pool(NamedTuple):
    """A pool.

    Attributes:
        key: the key of its frames.
        layout: the layout of its members.
        places: the indices of their values.

    """

    key: str
    layout: Layout
    places: list[int]


class Grouping:
    """Groups members by pool and owner.

    A group becomes a pool once at least `minimum` of its members have the age `settled_s`. It ends with its last
    member: a pool whose members leave is still one.

    Args:
        host: the prefix of the keys.
        features: the features of the members.
        minimum: the fewest members of a pool.
        settled_s: the least age of each of these.

    Attributes:
        waits: whether a group becomes a pool if it stays.
        left_out: the number of members beyond a bound.

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
        self._founded: dict[tuple[str, str], None] = {}  # pool and owner, in the order in which they became pools

    def group(self, members: Iterable[Member], boot_s: float) -> list[Pool]:
        """Return the present pools, `boot_s` seconds after boot."""
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
