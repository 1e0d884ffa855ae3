"""The hosts of an application in tiers, as its settings name them, or as the hosts are called."""

from __future__ import annotations

import fnmatch
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_NUMBERS = "0123456789*?"


class Tier(NamedTuple):
    """Hosts that do the same work.

    Attributes:
        name: what they are called, without what numbers them.
        hosts: their names, sorted.

    """

    name: str
    hosts: tuple[str, ...]


def tiers(hosts: Iterable[str], patterns: Sequence[str] = ()) -> list[Tier]:
    """Hosts in tiers.

    Args:
        hosts: their names.
        patterns: names and patterns of hosts, in the order of the tiers; those that are called alike but for a number
            are one tier. A host that is in none of them is of a tier that is called as it is, behind those.

    Example:
        >>> tiers(["db-1", "web-2", "web-1", "cache-1"], ["web-*", "db-1"])
        [Tier(name='web', hosts=('web-1', 'web-2')), Tier(name='db', hosts=('db-1',)), Tier(name='cache', \
hosts=('cache-1',))]

    """
    found: dict[str, list[str]] = {_unnumbered(pattern): [] for pattern in patterns}
    for host in sorted(hosts):
        said = next((pattern for pattern in patterns if fnmatch.fnmatchcase(host, pattern)), host)
        found.setdefault(_unnumbered(said), []).append(host)
    return [Tier(name, tuple(those)) for name, those in found.items() if those]


def _unnumbered(host: str) -> str:
    """A host's name, or a pattern of some, without domain and number: `web` of `web-12.example.org`."""
    name = host.partition(".")[0]
    bare = name.rstrip(_NUMBERS)
    if bare != name and bare.endswith(("-", "_")):
        bare = bare[:-1]
    return bare or host
