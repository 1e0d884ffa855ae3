"""Everyday faults on this machine, and which of them laggard reports unasked.

    python -m tests.evaluation.everyday                    # one round: 20 minutes to learn, 15 faults in 45 minutes
    python -m tests.evaluation.everyday --keep DIR         # keep the recording and the list of faults
    python -m tests.evaluation.everyday --replay DIR       # judge such a recording again, with today's laggard

Six small servers do regular work. Then, one after the other, one of them or a new program goes wrong for 60 to 120 s.
New programs are stress-ng under neutral names. What else runs on the machine is watched too.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from laggard.pipeline.bus.embedded import EmbeddedBus
from laggard.pipeline.records import Decoder, Frame
from tests.evaluation.alarm import Alarm

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVERS: Final = ("webd", "cached", "indexd", "mailq", "shopd", "authd")
FAULTS: Final[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
    ("1 core, new", "report", ("--cpu", "1")),
    ("0.5 core", "mailq", ("hog", "0.5")),
    ("700 MB, new", "importer", ("--vm", "1", "--vm-bytes", "700M", "--vm-keep")),
    ("writer, new", "backupd", ("--hdd", "1", "--hdd-bytes", "128M")),
    ("leak of 5 MB/s", "webd", ("leak", "5e6")),
    ("0.25 core", "cached", ("hog", "0.25")),
    ("5 descriptors/s", "indexd", ("open", "5")),
    ("10 MB/s written", "shopd", ("write", "10e6")),
    ("forks, new", "crond2", ("--fork", "1")),
    ("switches, new", "queue", ("--switch", "1")),
    ("1 core", "authd", ("hog", "1")),
    ("leak of 20 MB/s", "cached", ("leak", "20e6")),
    ("mixed I/O, new", "syncd", ("--iomix", "1")),
    ("matrices, new", "solver", ("--matrix", "1")),
    ("20 descriptors/s", "mailq", ("open", "20")),
)
"""A description, the faulty program, and how it goes wrong: an order to a server, or arguments of stress-ng."""

BESIDE_S: Final = 30.0
"""A fault may be reported so long after its end, in seconds."""


class Fault(NamedTuple):
    """A fault: its description, program, begin and end in seconds since the Unix epoch."""

    what: str
    program: str
    begin: float
    end: float


def serve(name: str, folder: Path) -> None:
    """Work regularly, and obey orders."""
    ctypes.CDLL(None).prctl(15, name.encode()[:15], 0, 0, 0)  # PR_SET_NAME
    order = folder / f"{name}.order"
    while True:
        begin = time.monotonic()
        while time.monotonic() - begin < random.uniform(0.002, 0.01):
            pass
        with (folder / f"{name}.log").open("a") as log:
            log.write("x" * random.randint(50, 500) + "\n")
        try:
            what, size, seconds = order.read_text().split()
            order.unlink()
        except (FileNotFoundError, ValueError):
            time.sleep(random.uniform(0.1, 0.4))
            continue
        misbehave(what, float(size), time.monotonic() + float(seconds), folder / f"{name}.dat")


def misbehave(what: str, size: float, until: float, file: Path) -> None:
    """Go wrong until a time of the monotonic clock; give back all in the end."""
    held: list[Any] = []
    while (begin := time.monotonic()) < until:
        if what == "hog":
            while time.monotonic() - begin < 0.1 * size:
                pass
            time.sleep(max(0.1 - (time.monotonic() - begin), 0.0))
        elif what == "leak":
            held.append(os.urandom(1) * int(0.1 * size))
            time.sleep(0.1)
        elif what == "write":
            with file.open("wb") as out:
                for _ in range(10):
                    out.write(os.urandom(1) * int(0.1 * size))
                    out.flush()
                    time.sleep(0.1)
        else:
            held.append(Path("/dev/null").open("rb"))  # noqa: SIM115 - it leaks on purpose
            time.sleep(1.0 / size)
    for each in held:
        if hasattr(each, "close"):
            each.close()


def make(folder: Path, rounds: int, learn_s: float, gap_s: tuple[float, float]) -> list[Fault]:
    """Let servers work and faults happen, while laggard watches."""
    stress = shutil.which("stress-ng")
    if stress is None:
        raise SystemExit("everyday: stress-ng is not installed; expected it on the path (`apt install stress-ng`)")
    up = [sys.executable, "-P", "-m", "laggard.pipeline.cli", "up"]
    settings = {"bus.location": folder / "laggard.db", "state": folder, "host": "box", "operators": "gaussian"}
    up += [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    up += ["--set", "web.listen=127.0.0.1:0", "--set", "serve.listen=127.0.0.1:0"]
    myself = [sys.executable, "-m", "tests.evaluation.everyday"]
    servers = [subprocess.Popen([*myself, "--serve", name, "--keep", str(folder)]) for name in SERVERS]
    time.sleep(2.0)
    watching = subprocess.Popen(up, stdout=subprocess.DEVNULL)
    made = []
    try:
        time.sleep(learn_s)
        for number in range(rounds * len(FAULTS)):
            what, program, how = FAULTS[number % len(FAULTS)]
            seconds, begin = random.uniform(*gap_s), time.time()
            if program in SERVERS:
                order = folder / f"{program}.new"
                order.write_text(f"{how[0]} {how[1]} {seconds}")
                order.rename(folder / f"{program}.order")
                time.sleep(seconds)
            else:
                copy = shutil.copy(stress, folder / program)
                command = [copy, "--keep-name", "--temp-path", str(folder), *how, "-t", f"{seconds:.0f}"]
                subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            made.append(Fault(what, program, begin, time.time()))
            time.sleep(random.uniform(*gap_s))
    finally:
        watching.terminate()
        for each in servers:
            each.kill()
        for each in (watching, *servers):
            each.wait()
    (folder / "faults.json").write_text(json.dumps(made))
    return made


def frames(path: Path) -> Iterator[Frame]:
    """The frames of processes and of the host in a recording."""
    decoder = Decoder()
    with EmbeddedBus(path) as bus:
        for partition in bus.partitions("laggard.counters"):
            for record in bus.read(partition, bus.bounds(partition)[0]):
                received = decoder.decode(record.value, str(path))
                if isinstance(received, Frame) and received.scope in {"process", "host"}:
                    yield received


def tables(path: Path, faults: list[Fault]) -> str:
    """Return which faults laggard reports, and the other incidents, in Markdown."""
    alarm = Alarm()
    for frame in frames(path):
        alarm.take(frame)
    lines, noticed = ["| fault | of | reported after | of its feature |", "|---|---|---|---|"], 0
    mine: set[str] = set()
    for fault in faults:
        about = [
            each
            for each in alarm.anomalies
            if each.blame and each.blame.name == fault.program and fault.begin <= each.ts <= fault.end + BESIDE_S
        ]
        noticed += bool(about)
        mine |= {each.id for each in about}
        after = f"{about[0].ts - fault.begin:.0f} s" if about else "never"
        feature = about[0].blame.feature if about and about[0].blame else ""
        lines.append(f"| {fault.what} | {fault.program} | {after} | {feature} |")
    lines += ["", f"Reported: {noticed} of {len(faults)}."]
    others = [each for each in alarm.last.values() if mine.isdisjoint(seen.anomaly for seen in each.evidence)]
    return "\n".join(
        [*lines, f"Incidents of other programs: {len(others)}.", *(f"- {each.sentence}" for each in others)]
    )


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--learn", type=float, default=1200.0, help="seconds before the first fault")
    parser.add_argument("--gap", type=float, nargs=2, default=(60.0, 120.0), help="lengths of faults and pauses")
    parser.add_argument("--keep", type=Path, metavar="DIR")
    parser.add_argument("--replay", type=Path, metavar="DIR")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.serve:
        serve(asked.serve, asked.keep)
    if asked.replay:
        faults = [Fault(*each) for each in json.loads((asked.replay / "faults.json").read_text())]
        print(tables(asked.replay / "laggard.db", faults))
        return
    with tempfile.TemporaryDirectory(prefix="laggard-everyday-") as temporary:
        folder = asked.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        print(tables(folder / "laggard.db", make(folder, asked.rounds, asked.learn, tuple(asked.gap))))


if __name__ == "__main__":
    main()
