"""How much a diagnosis may take: of a core, of time, of memory, of open files."""

from __future__ import annotations

from dataclasses import dataclass

from laggard.producers.system.open_files import HeldFiles, raise_descriptor_limit

FILES = 1024
"""So many files all sessions together hold open, at most, and at most a quarter of what the program may."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one session.

    Attributes:
        duration_s: for how long it looks.
        samples: how many rounds it makes.
        size_bytes: about how large its diagnosis gets as JSON; threads with less use are left out, and counted.
        interval_s: between two rounds, where the budget allows it.
        threads: at how many threads one round looks. Where there are more, three quarters are for those that used CPU
            time at their last look, and the others take turns in the last quarter.
        phases: how many it tells apart; what comes later is added to the last of its kind.

    Raises:
        ValueError: one of them is not above 0.

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
    """What all sessions of a program may take together: CPU time, shared equally, and open files.

    What a round of a session took is paid back before its next one, so that rounds become rarer as they cost more; what
    a profiler beside them takes is paid back by its pauses. Each of both has half of the session's share. Nothing is
    saved for later.

    Args:
        ratio: CPU time, of one core.

    Attributes:
        ratio: the same.
        files: those that are held open.
        sessions: how many share it now.
        spent_s: CPU time that they took, ended ones too, in seconds.

    Raises:
        ValueError: the ratio is not above 0.

    """

    def __init__(self, ratio: float = 0.04) -> None:
        if not ratio > 0:
            raise ValueError(f"ratio: expected a part of one core above 0, got {ratio!r}")
        self.ratio = ratio
        self.files = HeldFiles(min(FILES, raise_descriptor_limit() // 4))
        self.sessions = 0
        self.spent_s = 0.0

    @property
    def share(self) -> float:
        """What each session may take, of one core."""
        return self.ratio / max(1, self.sessions)
