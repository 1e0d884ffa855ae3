"""The members of a pool and their groups: their paths, their begins, and their waves."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from laggard.operators.covariance.bank import SETTLED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from laggard.operators.covariance.bank import Bank
    from laggard.operators.covariance.presence import Standing
    from laggard.operators.covariance.results import Kind

Path = tuple[str, ...]

WAVE: Final = 12
"""Members that begin within this number of ticks after the first of them are a wave."""

FORGOTTEN_S: Final = 86_400.0
"""The time for which the state of an ended member is kept, in seconds."""

STEADY: Final = 12
"""The number of ticks after which a new kind of deviation is reported."""

SUPERSEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "stuck": ("different", "slower"),
    "slower": ("different",),
    "busy": ("different", "spike"),
    "leak": ("different", "spike", "busy"),
    "spike": ("different",),
}
"""The kinds that each kind replaces at once."""


def says_more(told: str, kind: str) -> bool:
    """Return whether a kind says more than the reported one: a spike lasts, or a deviation had no kind."""
    return not told or told in SUPERSEDED.get(kind, ())


@dataclass(slots=True)
class Node:
    """A member, or a group of members."""

    path: Path
    name: str
    slot: int
    begin_ts: float
    wave: int
    leaf: bool
    until_ts: float = math.nan
    alive: bool = True
    # The reported kind; the kind by the newest ticks alone, and the number of these, or of quiet ones.
    kind: Kind | Literal[""] = ""
    next_kind: Kind | Literal[""] = ""
    ticks: int = 0
    standing: Standing | None = None

    def take_kind(self, kind: Kind | Literal[""]) -> None:
        """Learn the kind at a tick. The reported kind does not change with every tick."""
        self.ticks = self.ticks + 1 if kind == self.next_kind else 1
        self.next_kind = kind
        # A known kind stays rather than "different"; and after a spike a member is below its own mean for a while.
        after = bool(self.kind) and (kind == "different" or (self.kind == "spike" and kind == "slower"))
        if says_more(self.kind, kind) or (self.ticks >= (STEADY if kind else SETTLED) and not after):
            self.kind = kind

    @property
    def row(self) -> str:
        """The path as one text."""
        return "/".join(self.path)


@dataclass(slots=True)
class Wave:
    """Members of one group that began together."""

    number: int
    tick: int


class Depth:
    """All members and groups of one depth of the paths."""

    def __init__(self, bank: Bank) -> None:
        self.bank = bank
        self.nodes: dict[Path, Node] = {}
        self.waves: dict[Path, Wave] = {}  # the newest of each parent

    def claim(self, path: Path, name: str, slot: int, ts: float, tick: int, *, leaf: bool) -> None:
        """Add a new member or group to the newest wave, or to a new one."""
        wave = self.waves.get(path[:-1])
        if wave is None or tick - wave.tick > WAVE:
            wave = self.waves[path[:-1]] = Wave(0 if wave is None else wave.number + 1, tick)
        self.nodes[path] = Node(path, name, slot, ts, wave.number, leaf, ts)

    def forgettable(self, ts: float) -> list[Node]:
        """Return those that were hardly present, or ended long ago."""
        ended = [node for node in self.nodes.values() if not node.alive]
        if not ended:
            return []
        ticks = self.bank.extremes.ticks(np.array([node.slot for node in ended], np.intp))
        return [
            node
            for node, count in zip(ended, ticks, strict=True)
            if count < SETTLED or ts - node.until_ts > FORGOTTEN_S
        ]

    def release(self, nodes: Sequence[Node]) -> None:
        """Forget members or groups."""
        if not nodes:
            return
        self.bank.release(np.array([node.slot for node in nodes], np.intp))
        for node in nodes:
            del self.nodes[node.path]
        parents = {path[:-1] for path in self.nodes}
        self.waves = {parent: wave for parent, wave in self.waves.items() if parent in parents}

    def median_age_s(self, ts: float) -> float:
        """Return the median age of the present ones, in seconds."""
        alive = [ts - node.begin_ts for node in self.nodes.values() if node.alive]
        return float(np.median(alive)) if alive else 0.0


def wave_name(parent: Path, wave: int) -> str:
    """Return the name of a wave as a group of its parent."""
    return "/".join((*parent, f"wave {wave + 1}"))
