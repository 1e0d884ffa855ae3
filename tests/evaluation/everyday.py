"""Everyday faults on this machine, and which of them laggard reports unasked.

    python -m tests.evaluation.everyday                    # one round: 20 minutes to learn, 15 faults in 45 minutes
    python -m tests.evaluation.everyday --keep DIR         # keep the recording and the list of faults
    python -m tests.evaluation.everyday --replay DIR       # judge such a recording again, with today's laggard
    python -m tests.evaluation.everyday --lasting          # four faults at once that last for half an hour

Six small servers do regular work. Then, one after the other, one of them or a new program goes wrong for 60 to 120 s.
New programs are stress-ng under neutral names. Other programs on the machine are watched, too.
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
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.records import Decoder, Frame
from laggard.pipeline.core.topics import Topics
from laggard.pipeline.history.why import History
from laggard.pipeline.manifest import read_settings
from laggard.pipeline.wiring import asked
from tests.evaluation.alarm import Alarm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from laggard.pipeline.core.records.outputs import Anomaly

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
LASTING: Final[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
    ("0.5 core", "mailq", ("hog", "0.5")),
    ("leak of 2 MB/s", "webd", ("leak", "2e6")),
    ("10 MB/s written", "shopd", ("write", "10e6")),
    ("1 core, new", "solver", ("--matrix", "1")),
)
LASTING_S: Final = 1800.0
OVER_S: Final = 420.0
"""Watched so long after lasting faults have ended, in seconds."""

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


def sleep_until(ends: float) -> None:
    """Sleep until a time of the monotonic clock."""
    time.sleep(max(ends - time.monotonic(), 0.0))


def begin(folder: Path, program: str, how: tuple[str, ...], seconds: float) -> Callable[[], object]:
    """Let a server or a new program go wrong, and return what waits for its end."""
    if program in SERVERS:
        order = folder / f"{program}.new"
        order.write_text(f"{how[0]} {how[1]} {seconds}")
        order.rename(folder / f"{program}.order")
        return partial(sleep_until, time.monotonic() + seconds)
    stress = shutil.which("stress-ng")
    if stress is None:
        raise SystemExit("everyday: stress-ng is not installed; expected it on the path (`apt install stress-ng`)")
    copy = shutil.copy(stress, folder / program)
    command = [copy, "--keep-name", "--temp-path", str(folder), *how, "-t", f"{seconds:.0f}"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).wait


def make(folder: Path, rounds: int, learn_s: float, gap_s: tuple[float, float], *, lasting: bool) -> list[Fault]:
    """Let servers work and faults happen, while laggard watches."""
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
        if lasting:
            begun = [
                (what, program, time.time(), begin(folder, program, how, LASTING_S)) for what, program, how in LASTING
            ]
            for what, program, since, wait in begun:
                wait()
                made.append(Fault(what, program, since, time.time()))
            time.sleep(OVER_S)
        for number in range(0 if lasting else rounds * len(FAULTS)):
            what, program, how = FAULTS[number % len(FAULTS)]
            since = time.time()
            begin(folder, program, how, random.uniform(*gap_s))()
            made.append(Fault(what, program, since, time.time()))
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


def ends(alarm: Alarm, about: Sequence[Anomaly], fault: Fault) -> str:
    """Return when the last anomaly of a fault was over, and when it was reported so, from the end of the fault."""
    closed = [alarm.ended[each.id] for each in about if each.id in alarm.ended]
    if not about or len(closed) < len(about):
        return "open" if about else ""
    over, reported = (
        max(times) - fault.end for times in zip(*((each.until_ts, each.ts) for each in closed), strict=True)
    )
    return f"{over:+.0f} s, reported {reported:+.0f} s"


def tables(path: Path, faults: list[Fault]) -> str:
    """Return which faults laggard reports, and the other incidents, in Markdown."""
    alarm = Alarm()
    for frame in frames(path):
        alarm.take(frame)
    lines = ["| fault | of | reported after | of its feature | over after its end |", "|---|---|---|---|---|"]
    noticed = 0
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
        lines.append(f"| {fault.what} | {fault.program} | {after} | {feature} | {ends(alarm, about, fault)} |")
    lines += ["", f"Reported: {noticed} of {len(faults)}."]
    others = [each for each in alarm.last.values() if mine.isdisjoint(seen.anomaly for seen in each.evidence)]
    return "\n".join(
        [*lines, f"Incidents of other programs: {len(others)}.", *(f"- {each.sentence}" for each in others)]
    )


def separation(path: Path, faults: Sequence[Fault]) -> str:
    """Return how far `why` separates marks during faults from marks without one: the AUC of its score, in Markdown.

    Marks without a fault are those of the last ten minutes before the first one, every ten seconds.
    """
    with EmbeddedBus(path) as bus:
        history = History(bus, Topics(), asked(read_settings(None, environ={})))
        (host,) = history.hosts.all()

        def score(ts: float) -> float:
            return float(history.ask(host, ts, 1, 1).ranking.score)

        calm = [score(faults[0].begin - 10.0 * number) for number in range(1, 61)]
        lines = ["| mark after | AUC | least score in a fault | highest without |", "|---|---|---|---|"]
        for after_s in (10, 20, 40, 55):
            faulty = [score(each.begin + after_s) for each in faults]
            auc = np.mean([(one > other) + 0.5 * (one == other) for one in faulty for other in calm])
            lines.append(f"| {after_s} s | {auc:.2f} | {min(faulty):.2f} | {max(calm):.2f} |")
    return "\n".join(lines)


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--learn", type=float, default=1200.0, help="seconds before the first fault")
    parser.add_argument("--gap", type=float, nargs=2, default=(60.0, 120.0), help="lengths of faults and pauses")
    parser.add_argument("--keep", type=Path, metavar="DIR")
    parser.add_argument("--replay", type=Path, metavar="DIR")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--lasting", action="store_true", help="four faults at once, of half an hour")
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve, arguments.keep)
    if arguments.replay:
        faults = [Fault(*each) for each in json.loads((arguments.replay / "faults.json").read_text())]
        print(tables(arguments.replay / "laggard.db", faults))
        print(f"\n{separation(arguments.replay / 'laggard.db', faults)}")
        return
    with tempfile.TemporaryDirectory(prefix="laggard-everyday-") as temporary:
        folder = arguments.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        made = make(folder, arguments.rounds, arguments.learn, tuple(arguments.gap), lasting=arguments.lasting)
        print(tables(folder / "laggard.db", made))
        print(f"\n{separation(folder / 'laggard.db', made)}")


if __name__ == "__main__":
    main()
