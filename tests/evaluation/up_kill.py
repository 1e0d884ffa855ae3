"""`laggard up` whose parts are killed and stopped at random: each is back within 15 s, and no record is lost.

Agent, worker, page and `measure` run below `laggard up`. At random moments one of them gets SIGKILL or SIGSTOP. In
between the supervisor and all parts are stopped together for 8 s and woken, as on a machine that was suspended: then
nothing may be restarted. A part is back when another process has its place and does its work. For the agent that is a
tick on the bus, for `measure` a read, for the worker another commit, and for the page an answer. Meanwhile a mark a
second goes to the bus. In the end each learned record that was read was counted once in the state of its host, and
every mark is there.

A part that was hit works for a minute before it is hit again, for the pauses between starts grow otherwise.

    python -m tests.evaluation.up_kill                       # 20 minutes
    python -m tests.evaluation.up_kill --seconds 30 --seed 3 --patient   # the short form, in the tests
    python -m tests.evaluation.up_kill --load 20             # beside so many programs that only compute
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from laggard.pipeline.core.bus import Outgoing, Partition
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.claims import holder_of
from laggard.pipeline.core.engine.snapshots import decode_state
from laggard.pipeline.core.records import Decoder, Frame, Mark, encode
from laggard.pipeline.core.supervisor import STEADY_S
from laggard.pipeline.core.topics import APPLICATIONS, COUNTERS, Topics
from laggard.pipeline.manifest import read_settings
from laggard.pipeline.wiring import wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from laggard.pipeline.core.claims import Part

HOST = "web-1"
TOPICS = Topics()
COUNTED = Partition(TOPICS.name(COUNTERS), 0)
MEASURED = Partition(TOPICS.name(APPLICATIONS), 0)
HIT: tuple[Part, ...] = ("agent", "work", "serve", "measure")
SIGNALS = (signal.SIGKILL, signal.SIGSTOP)
BACK_S = 15.0
ASLEEP_S = 8.0
PATIENCE_S = 600.0
"""The longest wait for a part, on a machine that is shared; later than `BACK_S` counts as late."""


class Up:
    """`laggard up`, and what happens on its bus.

    Args:
        folder: an empty one.

    Attributes:
        marks: how many were brought to the bus.

    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.marks = folder, 0
        self.bus = EmbeddedBus(folder / "laggard.db")
        self.bus.create(TOPICS.specs())
        (folder / "laggard.toml").write_text(
            '[[sources]]\nkind = "lines"\napplication = "shop"\ninterval = "1s"\npath = "shop.jsonl"\n'
        )
        (folder / "shop.jsonl").touch()
        listen = ("--set", "web.listen=127.0.0.1:0", "--set", "serve.listen=127.0.0.1:0")
        self.errors = (folder / "errors").open("w+")
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-P", "-m", "laggard.pipeline.cli", "up", "--bus", str(folder / "laggard.db")),
                *(*listen, "--set", f"host={HOST}", "--interval", "1s"),
            ],
            stdout=subprocess.DEVNULL,
            stderr=self.errors,
            cwd=folder,
            env={**os.environ, "LAGGARD_STATE": str(folder), "PYTHONPATH": str(Path(__file__).parents[2])},
        )

    def begin(self) -> None:
        """Wait until all parts work."""
        for part in HIT:
            self.await_work(part, 0, time.time())

    def holder(self, part: Part) -> tuple[int, str]:
        found = holder_of(str(self.folder / "laggard.db"), self.folder, part)
        return (found.pid, found.url) if found else (0, "")

    def await_work(self, part: Part, before: int, since: float) -> float:
        """Wait until another process does the work of a part; gives the seconds since then."""
        began = time.monotonic()
        works = self._works(part, since)
        while True:
            pid, url = self.holder(part)
            if pid not in {0, before} and works(url):
                return time.monotonic() - began
            if self.process.poll() is not None or time.monotonic() > began + PATIENCE_S:
                raise RuntimeError(f"{part} does not come back: {self.said()}")
            time.sleep(0.1)

    def _works(self, part: Part, since: float) -> Callable[[str], bool]:
        bus = self.bus
        group = TOPICS.group("hosts")
        committed = bus.committed(group, COUNTED)

        def answers(url: str) -> bool:
            if not url:
                return False
            try:
                with urllib.request.urlopen(url, timeout=10) as answer:
                    return bool(answer.status == 200)
            except OSError:
                return False

        def tells(partition: Partition, scope: str) -> bool:
            end = bus.bounds(partition)[1]
            records = [Decoder().decode(one.value, "evaluation") for one in bus.read(partition, max(0, end - 8))]
            return any(isinstance(one, Frame) and one.scope == scope and one.ts > since for one in records)

        return {
            "agent": lambda _: tells(COUNTED, "agent"),
            "measure": lambda _: tells(MEASURED, "source"),
            "work": lambda _: bus.committed(group, COUNTED) > committed,
            "serve": answers,
        }[part]

    def mark(self) -> None:
        """Bring a mark to the bus."""
        now = time.time()
        self.bus.append([Outgoing(COUNTED.topic, HOST, encode(Mark(HOST, now, f"mark {self.marks}", self.marks)), now)])
        self.marks += 1

    def sleep_together(self) -> None:
        """Stop the supervisor and all parts, and wake them a while later."""
        pids = [self.process.pid, *(self.holder(part)[0] for part in HIT)]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(ASLEEP_S)
        for pid in reversed(pids):
            os.kill(pid, signal.SIGCONT)

    def said(self) -> list[str]:
        """The lines of its standard error."""
        return (self.folder / "errors").read_text().splitlines()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(PATIENCE_S)

    def await_read(self) -> None:
        """Wait until the worker has read all that is there now."""
        end = self.bus.bounds(COUNTED)[1]
        until = time.monotonic() + PATIENCE_S
        while self.position() < end:
            if time.monotonic() > until:
                raise RuntimeError(f"the worker has read {self.position()} of {end} records: {self.said()}")
            time.sleep(0.1)

    def records(self, stop: int | None = None) -> Iterator[Any]:
        decoder = Decoder()
        for one in self.bus.read(COUNTED, 0, stop):
            yield decoder.decode(one.value, "evaluation")

    def position(self) -> int:
        """The first offset that the worker has not read. It may stop before it reads the agent's last frames."""
        return self.bus.committed(TOPICS.group("hosts"), COUNTED)

    def counted(self) -> dict[str, int]:
        """By key, how many records the state of the first operator has counted."""
        first = wire(read_settings(environ={}))[0]
        found = self.bus.snapshots(first.snapshots, COUNTED)
        return {one.key: decode_state(one.value, one.key)["records"] for one in found if one.key}

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.errors.close()
        self.bus.close()


def disturb(up: Up, seconds: float, draw: random.Random) -> tuple[dict[tuple[Part, str], list[float]], int]:
    """Hit parts for this time. Return the time until each was back, and how often all slept together."""
    took: dict[tuple[Part, str], list[float]] = {}
    asleep, hit_at = 0, dict.fromkeys(HIT, -STEADY_S)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(draw.uniform(1.0, 12.0))
        rested = [part for part in HIT if time.monotonic() - hit_at[part] > STEADY_S + 5.0]
        if draw.random() < 0.1 or not (asleep or rested):
            up.sleep_together()
            asleep += 1
        elif rested:
            part, number = draw.choice(rested), draw.choice(SIGNALS)
            pid, _ = up.holder(part)
            since = time.time()
            os.kill(pid, number)
            back_s = up.await_work(part, pid, since)
            hit_at[part] = time.monotonic()
            took.setdefault((part, number.name), []).append(back_s)
            print(json.dumps({"part": part, "signal": number.name, "back_s": round(back_s, 1)}), flush=True)
    return took, asleep


def is_learned(record: Frame | Mark) -> bool:
    """Whether it changes the state of an operator that judges hosts; what the agent says of itself does not."""
    return isinstance(record, Mark) or record.scope in {"process", "host"}


def evaluate(folder: Path, seconds: float, seed: int, back_s: float) -> int:
    up = Up(folder)
    stop = threading.Event()

    def mark() -> None:
        while not stop.wait(1.0):
            up.mark()

    marking = threading.Thread(target=mark)
    try:
        up.begin()
        marking.start()
        took, asleep = disturb(up, seconds, random.Random(seed))
        stop.set()
        marking.join()
        up.await_read()
        code = up.stop()
        records, read, counted = list(up.records()), list(up.records(up.position())), up.counted()
    finally:
        stop.set()
        up.end()
    marks = [one.note for one in records if isinstance(one, Mark)]
    frames = [one.sequence for one in records if isinstance(one, Frame)]
    due = Counter(one.key if isinstance(one, Frame) else one.host for one in read if is_learned(one))
    hits = sum(map(len, took.values()))
    late = sum(each > back_s for some in took.values() for each in some)
    restarted = [line for line in up.said() if "starts again" in line]
    checks = {
        f"each was back within {back_s:g} s": not late,
        "nothing else was restarted, nor given up": len(restarted) == hits and len(up.said()) == hits,
        "every mark is there once": marks == [f"mark {number}" for number in range(up.marks)],
        "every frame is there once": frames == sorted(set(frames)),
        "every record was counted once": counted == due,
        "it stopped well": code == 0,
    }
    print(f"{hits} hits, {asleep} sleeps of all together, {len(records)} records, {late} back late")
    for (part, name), some in sorted(took.items()):
        print(f"{part:8} {name:8} {len(some):3} times   back after {median(some):.1f} s, {max(some):.1f} s at most")
    for check, holds in checks.items():
        print(f"{check}: {'yes' if holds else 'NO'}")
    if not all(checks.values()):
        print("\n".join([*up.said(), f"due {due}, counted {counted}"]), file=sys.stderr)
    return 0 if all(checks.values()) else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1200.0, help="for how long parts are hit")
    parser.add_argument("--seed", type=int, default=1, help="of the moments, victims and signals")
    parser.add_argument("--load", type=int, default=0, help="so many programs compute beside it")
    parser.add_argument(
        "--patient", action="store_true", help=f"allow {PATIENCE_S:g} s to be back, on a shared machine"
    )
    given = parser.parse_args()
    busy = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(given.load)]
    try:
        with tempfile.TemporaryDirectory() as folder:
            back_s = PATIENCE_S if given.patient else BACK_S
            return evaluate(Path(folder), given.seconds, given.seed, back_s)
    finally:
        for process in busy:
            process.kill()
            process.wait()


if __name__ == "__main__":
    sys.exit(main())
