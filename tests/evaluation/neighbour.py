"""A hostile neighbor, and its effect on the agent that watches the machine as root.

    python -m tests.evaluation.neighbour                    # ten minutes
    python -m tests.evaluation.neighbour --seconds 60

As the user `nobody` it does all at once. It has command lines and environments of 1 GiB, names that change 200 times a
second, 60,000 mappings, as many descriptors as allowed, 2,000 threads and 5,000 processes. It also forks, and has a
symbol that takes a demangler seconds. Some of its programs look like Java, and lead elsewhere or answer without end.
The agent profiles processes that use CPU time, as it does by itself.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import os
import struct
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil

from laggard.pipeline.core.records import Decoder, Frame
from laggard.pipeline.core.records.diagnosis_json import read_diagnosis
from tests.evaluation.watched import COUNTERS, DIAGNOSES, agent, table
from tests.misbehaving.programs import compiled

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


NOBODY: Final = 65534
LEVELS: Final = 24
"""The levels of a type that doubles with each: as a symbol it has 280 bytes, demangled 500 MB."""

MOST_BYTES: Final = 128 << 20
"""The most resident memory of the agent."""


@dataclass
class Told:
    """The effect of the neighbor on an agent.

    Attributes:
        ticks: the number of ticks.
        longest_s: the longest time between two of them.
        interval_s: the time that should be between two of them.
        resident_bytes: the largest memory of the agent.
        cpu_ratio: its use of one core, with programs that it has started and that have ended.
        ended: whether it ended.
        diagnoses: the number of profiled processes.
        opened: the number of lookups and creations in a folder that is closed to the neighbor.
        look_alikes: whether it had programs that look like Java, for which it must be allowed a user namespace.

    """

    ticks: int
    longest_s: float
    interval_s: float
    resident_bytes: int
    cpu_ratio: float
    ended: bool
    diagnoses: int
    opened: int
    look_alikes: bool

    @property
    def held(self) -> bool:
        """Whether all promises are kept."""
        return (
            self.longest_s < 2.5 * self.interval_s
            and self.resident_bytes <= MOST_BYTES
            and not self.ended
            and not self.opened
        )


def exploding(levels: int) -> str:
    """A C++ name, each of whose arguments has the one before twice: f(A<int, int>, A<A<int, int>, ...>, ...)."""

    def place(number: int) -> str:
        digits, left = "", number
        while left:
            digits, left = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[left % 36] + digits, left // 36
        return f"S{digits or '0'}_"

    return "_Z1f1AIiiE" + "".join(f"S_I{place(level)}{place(level)}E" for level in range(levels))


class Watched:
    """Counts lookups and creations in a folder, by inotify(7).

    Args:
        folder: the folder.

    """

    _EVENTS: Final = 0x20 | 0x100 | 0x200  # IN_OPEN, IN_CREATE, IN_DELETE

    def __init__(self, folder: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0 or libc.inotify_add_watch(self._descriptor, bytes(folder), self._EVENTS) < 0:
            raise OSError(ctypes.get_errno(), "expected inotify", str(folder))

    def count(self) -> int:
        """Return their number since the last call."""
        found, text = 0, b""
        with suppress(BlockingIOError):
            while text := os.read(self._descriptor, 1 << 16):
                at = 0
                while at < len(text):
                    (length,) = struct.unpack_from("=I", text, at + 12)
                    at += 16 + length
                    found += 1
        return found

    def close(self) -> None:
        """Stop the watch."""
        os.close(self._descriptor)


def ways(folder: Path, victim: Path, crowd: int, *, look_alikes: bool) -> list[tuple[Path, tuple[str, ...]]]:
    """Return the neighbor's programs and their arguments."""
    program, exploded = compiled("hostile"), compiled("hostile", f'-DSYMBOL="{exploding(LEVELS)}"')
    places = []
    for name in ("leading", "answering"):
        place = folder / name
        place.mkdir()
        os.chown(place, NOBODY, NOBODY)
        places.append(str(place))
    return [
        *[(program, ("arguments", str(1 << 30)))] * 4,
        (program, ("names",)),
        (program, ("mappings", "60000")),
        (program, ("descriptors",)),
        (program, ("threads", "2000")),
        (exploded, ("burn",)),
        (program, ("crowd", str(crowd))),
        *([(program, ("java", places[0], str(victim))), (program, ("java", places[1]))] if look_alikes else []),
        (program, ("forks",)),
    ]


def harm(seconds: float, crowd: int, interval_s: float = 1.0) -> Told:
    """Let the neighbor do what it can for some seconds. Raises `PermissionError` for users other than root."""
    if os.geteuid() != 0:
        raise PermissionError("neighbour: expected to be root, who may be somebody else")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="laggard-")))
        folder.chmod(0o711)
        (folder / "state").mkdir(mode=0o700)
        victim = folder / "victim"
        victim.mkdir(mode=0o700)
        (victim / "secret").write_text("secret")
        watched = Watched(victim)
        stack.callback(watched.close)
        settings = {"cpu_conditions": "single_cpu", "cpu_threshold": "10%", "cpu_duration": "1s"}
        watching = stack.enter_context(agent(folder / "state", agent_interval=f"{interval_s:g}s", **settings))
        process = psutil.Process(watching.pid)
        look_alikes = _nobody_may("unshare", "--user", "true")
        for program, arguments in ways(folder, victim, crowd, look_alikes=look_alikes):
            stack.enter_context(_as_nobody(program, arguments))
        since, begun, used = time.time(), time.monotonic(), _used(process)
        resident = opened = 0
        while time.monotonic() < begun + seconds and process.is_running():
            time.sleep(0.2)
            with suppress(psutil.NoSuchProcess):
                resident = max(resident, process.memory_info().rss)
            opened += watched.count()
        ended = not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
        cpu = (_used(process) - used) / (time.monotonic() - begun)
        decoder, times = Decoder(), set[float]()
        for record in watching.records(COUNTERS):
            frame = decoder.decode(record.value, "counters")
            if isinstance(frame, Frame) and frame.scope == "process" and frame.ts >= since:
                times.add(frame.ts)
        looked = {read_diagnosis(record.value, "diagnoses").pid for record in watching.records(DIAGNOSES)}
    ticks = sorted(times)
    gaps = [after - before for before, after in itertools.pairwise(ticks)]
    return Told(
        len(ticks), max(gaps, default=seconds), interval_s, resident, cpu, ended, len(looked), opened, look_alikes
    )


def _used(process: psutil.Process) -> float:
    """CPU time of an agent and of what it has started, in seconds."""
    return float(sum(process.cpu_times()[:4]))


def _nobody_may(*command: str) -> bool:
    ended = subprocess.run(command, user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True, check=False)
    return ended.returncode == 0


@contextmanager
def _as_nobody(program: Path, arguments: Sequence[str]) -> Iterator[None]:
    with subprocess.Popen(
        [program, *arguments], user=NOBODY, group=NOBODY, extra_groups=[], cwd="/", stdout=subprocess.PIPE, text=True
    ) as started:
        try:
            assert started.stdout is not None
            if started.stdout.readline() != "ready\n":
                raise RuntimeError(f"neighbour: {arguments}: expected it to run, got {started.wait()}")
            yield
        finally:
            started.kill()


def main() -> None:
    """Say what happened; exit with 1 if a promise was not kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--crowd", type=int, default=5000, help="processes that do nothing")
    asked = parser.parse_args()
    told = harm(asked.seconds, asked.crowd)
    rows = [
        ("ticks", told.ticks, ""),
        ("longest between two", f"{told.longest_s:.2f} s", f"below {2.5 * told.interval_s:g} s"),
        ("resident memory", f"{told.resident_bytes / 2**20:.0f} MiB", f"at most {MOST_BYTES >> 20} MiB"),
        ("CPU", f"{told.cpu_ratio:.1%} of a core", ""),
        ("ended", told.ended, False),
        ("processes looked into", told.diagnoses, ""),
        ("opened or made in a closed folder", told.opened, 0),
    ]
    print(table(("", "was", "promised"), rows))
    if not told.look_alikes:
        print("Without programs that look like Java: `nobody` may not have a user namespace here.")
    sys.exit(not told.held)


if __name__ == "__main__":
    main()
