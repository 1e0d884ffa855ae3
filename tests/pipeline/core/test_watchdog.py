"""When a silent part hangs: on a `/proc` made of files."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import pytest

from laggard.pipeline.core.watchdog import EXCUSED_S, LONGEST_SILENT_S, SILENT_S, STOPPED_S, MemoryLimit, Watchdog

if TYPE_CHECKING:
    from pathlib import Path

PID = 7
TICKS = os.sysconf("SC_CLK_TCK")


class Part:
    """A part as procfs shows it, and how it is looked at.

    Args:
        root: of that procfs.
        states: of its threads.

    """

    def __init__(self, root: Path, *states: str) -> None:
        self._task = root / f"{PID}/task"
        self._used_s = 0.0
        self.states = states
        self.status = f"State:\t{states[0]} (of it)\nRssAnon:\t 3000 kB\nRssFile:\t 9000 kB\nVmSwap:\t 1096 kB\n"
        for thread in range(len(states)):
            (self._task / str(thread)).mkdir(parents=True)

    def look(self, watchdog: Watchdog, *, used_ratio: float = 0.0, alive: bool = False, passed_s: float = 1.0) -> str:
        """Look once; its threads have used this share of a core since the last look."""
        self._used_s += used_ratio * passed_s
        (self._task.parent / "status").write_text(self.status)
        for thread, state in enumerate(self.states):
            fields = [state, *["0"] * 10, f"{self._used_s * TICKS:.0f}", "0", *["0"] * 8]
            (self._task / f"{thread}/stat").write_text(f"{PID} (a) b) c) {' '.join(fields)}")
        return watchdog.check(PID, passed_s, alive=alive)

    def killed_after_s(self, watchdog: Watchdog, used_ratio: float = 0.0, passed_s: float = 5.0) -> float:
        """How long it takes until it is killed."""
        looks = range(1, 400)
        return passed_s * next(look for look in looks if self.look(watchdog, used_ratio=used_ratio, passed_s=passed_s))


@pytest.mark.parametrize(
    ("states", "used_ratio", "expected_s"),
    [
        (("S",), 0.0, SILENT_S),
        (("R",), 1.0, SILENT_S),
        (("t",), 0.0, SILENT_S),
        (("D",), 0.0, SILENT_S + EXCUSED_S),
        (("R",), 0.05, SILENT_S + EXCUSED_S),
        (("R",), 0.5, 2 * SILENT_S),
        (("S", "S", "D"), 0.0, SILENT_S + EXCUSED_S),
        (("T",), 0.0, STOPPED_S),
    ],
    ids=[
        "it sleeps",
        "it computes",
        "traced",
        "a disk",
        "a busy CPU",
        "half a CPU",
        "a thread's disk",
        "it is stopped",
    ],
)
def test_what_it_waits_for(tmp_path: Path, states: tuple[str, ...], used_ratio: float, expected_s: float) -> None:
    # The first look knows no CPU time before it.
    found_s = Part(tmp_path, *states).killed_after_s(Watchdog(None, str(tmp_path)), used_ratio)
    assert abs(found_s - expected_s) <= 5.0


def test_a_sign_of_life_begins_anew(tmp_path: Path) -> None:
    watchdog, part = Watchdog(None, str(tmp_path)), Part(tmp_path, "S")
    for _ in range(3):
        assert not any(part.look(watchdog, passed_s=5.0) for _ in range(int(SILENT_S / 5.0) - 1))
        assert part.look(watchdog, alive=True) == ""
    assert part.killed_after_s(watchdog) == SILENT_S


def test_each_time_it_has_longer(tmp_path: Path) -> None:
    """A part that cannot be quicker is not killed for ever."""
    watchdog, part = Watchdog(None, str(tmp_path)), Part(tmp_path, "S")
    given_s: list[float] = []
    for _ in range(6):
        environment, inherited = watchdog.begin({"WATCHDOG_PID": "1", "HOME": "/h"})
        inherited.close()
        given_s.append(part.killed_after_s(watchdog))
        assert environment == {
            "HOME": "/h",
            "NOTIFY_SOCKET": environment["NOTIFY_SOCKET"],
            "WATCHDOG_USEC": f"{given_s[-1] * 1e6:.0f}",
        }
    assert given_s == [SILENT_S, 2 * SILENT_S, 4 * SILENT_S, 8 * SILENT_S, LONGEST_SILENT_S, LONGEST_SILENT_S]
    watchdog.end()


def test_memory_counts_without_files_and_with_swap(tmp_path: Path) -> None:
    part = Part(tmp_path, "S")
    assert part.look(Watchdog(MemoryLimit(4096 << 10, "x.memory_bytes"), str(tmp_path))) == ""
    said = part.look(Watchdog(MemoryLimit(4095 << 10, "x.memory_bytes"), str(tmp_path)))
    assert re.fullmatch(r"held 4 MiB of memory, 4 MiB are allowed \(setting x.memory_bytes\)", said)


def test_where_it_sleeps_is_said(tmp_path: Path) -> None:
    watchdog, part = Watchdog(None, str(tmp_path)), Part(tmp_path, "S")
    (tmp_path / f"{PID}/wchan").write_text("futex_do_wait")
    said = part.look(watchdog, passed_s=SILENT_S)
    assert said == f"gave no sign of life for {SILENT_S:g} s, asleep in futex_do_wait,"


def test_one_that_has_gone_is_not_killed(tmp_path: Path) -> None:
    watchdog = Watchdog(MemoryLimit(0, "x.memory_bytes"), str(tmp_path))
    assert watchdog.check(PID, 1e6, alive=False) == ""
