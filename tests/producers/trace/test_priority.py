"""The priority of a tracer, in processes of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from laggard.producers.trace.priority import NICE, WEIGHT

if TYPE_CHECKING:
    from pathlib import Path

TRIED = """
import os, sys
from pathlib import Path
from laggard.producers.trace.priority import raise_priority
inside = Path(sys.argv[1], "unit")
inside.mkdir()
(inside / "cgroup.procs").write_text(sys.argv[3] or str(os.getpid()))
(inside / "cpu.weight").write_text(sys.argv[4])
proc = Path(sys.argv[1], "proc")
proc.mkdir()
(proc / "task").symlink_to("/proc/self/task")
(proc / "autogroup").touch()
(proc / "cgroup").write_text("9:name=systemd:/\\n0::/unit\\n")
os.nice(int(sys.argv[2]))
print(*raise_priority(proc, Path(sys.argv[1])), sep="\\n")
print(os.getpriority(os.PRIO_PROCESS, 0), (proc / "autogroup").read_text(), (inside / "cpu.weight").read_text())
"""


def tried(folder: Path, *, nice: int = 0, processes: str = "", weight: str = "100") -> list[str]:
    command = [sys.executable, "-c", TRIED, str(folder), str(nice), processes, weight]
    done = subprocess.run(command, check=True, capture_output=True, text=True, start_new_session=True)
    return done.stdout.splitlines()


pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or os.getpriority(os.PRIO_PROCESS, 0) != 0, reason="only root may raise a priority"
)


def test_it_is_raised_where_it_may_be(tmp_path: Path) -> None:
    priority, refusal, state = tried(tmp_path)
    assert (priority, refusal) == (f"nice {NICE}, CPU weight {WEIGHT} of its cgroup", "")
    assert state == f"{NICE} {NICE} {WEIGHT}"


def test_what_somebody_chose_stays(tmp_path: Path) -> None:
    assert tried(tmp_path, nice=3) == ["nice 3", "", "3  100"]


@pytest.mark.parametrize(("processes", "weight"), [("1 2", "100"), ("", "250")])
def test_a_weight_of_others_stays(tmp_path: Path, processes: str, weight: str) -> None:
    assert tried(tmp_path, processes=processes, weight=weight) == [f"nice {NICE}", "", f"{NICE} {NICE} {weight}"]


FORBIDDEN = """
import os
from laggard.producers.trace.priority import raise_priority
os.setgid(65534)
os.setuid(65534)
print(*raise_priority(), sep="\\n")
"""


def test_a_refusal_names_what_it_needs() -> None:
    done = subprocess.run([sys.executable, "-c", FORBIDDEN], check=True, capture_output=True, text=True)
    priority, refusal = done.stdout.splitlines()
    assert priority == "nice 0"
    assert refusal.startswith("its priority is not raised (Permission denied): it needs CAP_SYS_NICE")
