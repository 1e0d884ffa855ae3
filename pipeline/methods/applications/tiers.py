"""The hosts of an application in tiers, by its settings or by the names of the hosts."""

from __future__ import annotations

import fnmatch
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_NUMBERS = "0123456789*?"


class Tier(NamedTuple):
    """Hosts that do the same work.

    Attributes:
        name: their common name, without numbers.
        hosts: the names of the hosts, sorted.

    """

    name: str
    hosts: tuple[str, ...]


def tiers(hosts: Iterable[str], patterns: Sequence[str] = ()) -> list[Tier]:
    """Group hosts into tiers.

    Args:
        hosts: the names of the hosts.
        patterns: names and patterns of hosts, in the order of the tiers; those that differ only by a number are one
            tier. A host that matches none belongs to a tier by its own name, after the others.

    Example:
        >>> tiers(["db-1", "web-2", "web-1", "cache-1"], ["web-*", "db-1"])
        [Tier(name='web', hosts=('web-1', 'web-2')), Tier(name='db', hosts=('db-1',)), Tier(name='cache', \
hosts=('cache-1',))]

    """
    found: dict[str, list[str]] = {_unnumbered(pattern): [] for pattern in patterns}
    for host in sorted(hosts):
        matched = next((pattern for pattern in patterns if fnmatch.fnmatchcase(host, pattern)), host)
        found.setdefault(_unnumbered(matched), []).append(host)
    return [Tier(name, tuple(those)) for name, those in found.items() if those]


def _unnumbered(host: str) -> str:
    """Return the name or pattern of hosts without domain and number: `web` for `web-12.example.org`."""
    name = host.partition(".")[0]
    bare = name.rstrip(_NUMBERS)
    if bare != name and bare.endswith(("-", "_")):
        bare = bare[:-1]
    return bare or host
