"""The four scenarios: how many visitors there are and what the neighbors do in each interval, and the culprit."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Final, Literal

Resource = Literal["cpu", "memory", "disk"]

SCALE: Final = 12
"""The published numbers of users are divided by this, so that two cores bear them."""
MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Noise:
    """A neighbor, and when it is there.

    Attributes:
        name: of its process.
        begin, end: its first and its last interval, from 1.
        lowest, highest: how much it takes, as a share: it swings between them within two intervals.
        lag: of its swing behind that of others, in intervals: those that come together are in turns.

    """

    name: str
    begin: int
    end: int
    lowest: float
    highest: float
    lag: float = 0.0

    def share(self, time: float, phase: float) -> float:
        """How much it takes at a time, in intervals since the beginning: at 0.5 it is the middle of the first one."""
        if not self.begin <= math.floor(time) + 1 <= self.end:
            return 0.0
        swing = 0.5 + 0.5 * math.sin(math.pi * (time - self.lag) + phase)
        return self.lowest + (self.highest - self.lowest) * swing


@dataclass(frozen=True, slots=True)
class Scenario:
    """One of the paper's section 5.

    Attributes:
        name: of it.
        intervals: how many there are.
        usual, surge: published users, from and to; drawn for each interval.
        begin, end: the first and the last interval of the contention, from 1.
        host: where it is.
        resource: that is contended.
        noise: the neighbors on that host.
        database_bytes: memory of the database's host: the data fits into it, or a fifth of them.
        disk_operations_per_s: as many as the disk of that host bears, each for reading and for writing.

    """

    name: str
    intervals: int
    usual: tuple[int, int]
    begin: int
    end: int
    host: str
    resource: Resource
    surge: tuple[int, int] = (0, 0)
    noise: tuple[Noise, ...] = ()
    database_bytes: int = 320 * MIB
    disk_operations_per_s: int = 800

    def contended(self, interval: int) -> bool:
        """Whether there is contention in an interval, from 1."""
        return self.begin <= interval <= self.end

    def visitors(self, seed: int) -> list[int]:
        """How many there are in each interval."""
        chance = random.Random(f"visitors {self.name} {seed}")
        drawn = []
        for interval in range(1, self.intervals + 1):
            low, high = self.surge if self.surge[1] and self.contended(interval) else self.usual
            drawn.append(round(chance.uniform(low, high) / SCALE))
        return drawn


SCENARIOS: Final = {
    scenario.name: scenario
    for scenario in (
        Scenario("workload", 60, (950, 1050), 21, 40, "web", "cpu", surge=(2185, 2415)),
        Scenario(
            "cpu",
            120,
            (1100, 1300),
            21,
            100,
            "web",
            "cpu",
            noise=tuple(
                Noise(f"cpuload{number}", begin, end, 0.1, 0.4, lag=number % 2)
                for number, (begin, end) in enumerate(((21, 80), (21, 80), (41, 100), (41, 100)), 1)
            ),
        ),
        Scenario("memory", 120, (900, 1100), 41, 80, "db", "memory", noise=(Noise("memload", 41, 80, 0.9, 1.0),)),
        Scenario(
            "disk",
            60,
            (500, 600),
            21,
            40,
            "db",
            "disk",
            noise=(Noise("diskload", 21, 40, 0.9, 1.0),),
            database_bytes=128 * MIB,
            disk_operations_per_s=2000,
        ),
    )
}
