"""The limits of diagnoses: CPU time, duration, memory, and open files."""

from __future__ import annotations

from dataclasses import dataclass

from laggard.producers.system.open_files import FileBudget, raise_descriptor_limit

FILES = 1024
"""The most open files of all sessions together, at most a quarter of those that the program may have."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one session.

    Attributes:
        duration_s: its longest duration.
        samples: the most rounds.
        size_bytes: the approximate size of its diagnosis as JSON; threads with less use are left out, and counted.
        interval_s: the time between two rounds, if the budget allows it.
        threads: the most threads that one round samples. If there are more, three quarters are for those that used CPU
            time at their last sample. The others take turns in the last quarter.
        phases: the most phases; a later one is added to the last of its kind.

    Raises:
        ValueError: one of them is not above 0, or there are fewer than 2 phases.

    """

    duration_s: float = 300.0
    samples: int = 3000
    size_bytes: int = 256 * 1024
    interval_s: float = 0.1
    threads: int = 256
    phases: int = 64

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if not value > 0:
                raise ValueError(f"{name}: expected a number above 0, got {value!r}")
        if self.phases < 2:
            raise ValueError(f"phases: expected at least 2, high use and a dip, got {self.phases!r}")


class Budget:
    """The common limit of all sessions of a program: CPU time, shared equally, and open files.

    The CPU time of a round is paid back before the next round of the session, so expensive rounds become rarer. That of
    profilers is paid back by their pauses. Rounds and profilers have half of the session's share each; without a
    profiler, rounds have all of it. Nothing is saved for later.

    Args:
        ratio: the CPU time as a share of one core.

    Attributes:
        ratio: the same.
        files: the open files.
        sessions: the number of sessions that share it now.
        spent_s: the CPU time of all sessions, ended ones too, in seconds.

    Raises:
        ValueError: the ratio is not above 0.

    """

    def __init__(self, ratio: float = 0.04) -> None:
        if not ratio > 0:
            raise ValueError(f"ratio: expected a part of one core above 0, got {ratio!r}")
        self.ratio = ratio
        self.files = FileBudget(min(FILES, raise_descriptor_limit() // 4))
        self.sessions = 0
        self.spent_s = 0.0

    @property
    def share(self) -> float:
        """The CPU time of each session as a share of one core."""
        return self.ratio / max(1, self.sessions)
