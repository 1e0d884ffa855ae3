"""The accuracy of lasting anomalies, on simulated machines without faults and with many.

    python -m tests.evaluation.lasting                       # all machines of the table, in half an hour
    python -m tests.evaluation.lasting --seeds 1 2 --days 2  # fewer, shorter
    python -m tests.evaluation.lasting --budget 0.1          # of false alarms a day

See `README.md` for what is simulated and what the columns mean.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from laggard.pipeline.core.bus import Incoming, Partition
from laggard.pipeline.core.records import Frame
from laggard.pipeline.core.records.outputs import Anomaly, Blame, Incident, Notice, Progress
from laggard.pipeline.manifest import read_settings
from laggard.pipeline.methods.incidents.joiner import Joiner
from laggard.pipeline.settings import parse_assignment
from laggard.pipeline.wiring import wire
from tests.evaluation.null import rate
from tests.evaluation.simulated import DAY_S, HOST_LAYOUT, START, Fault, Kind, Machine

if TYPE_CHECKING:
    from collections.abc import Sequence

KINDS: Final = (
    (Kind("50 processes at 5 s", 50, 5.0, 2, 20.0), 4.0),
    (Kind("200 processes at 5 s", 200, 5.0, 8, 60.0), 2.0),
    (Kind("500 processes at 5 s", 500, 5.0, 32, 200.0), 1.0),
    (Kind("50 processes at 1 s", 50, 1.0, 2, 20.0), 1.0),
    (Kind("50 processes at 30 s", 50, 30.0, 2, 20.0), 6.0),
)
"""The simulated machines, and their days."""

SIZES: Final[dict[str, tuple[float, ...]]] = {
    "hog": (0.25, 0.5, 1.0),
    "leak": (2e6, 5e6),
    "io": (5e6, 15e6),
    "descriptors": (2.0, 6.0),
}
"""Sizes of faults: cores; bytes or descriptors per second."""

UNIT: Final = {"hog": 0.1, "leak": 2e6, "io": 5e6, "descriptors": 2.0}
"""The size of a fault of strength 0, see `simulated.inject`."""

LENGTHS_S: Final = ((120.0, 300.0), (300.0, 600.0), (1800.0, 3600.0))

QUIET_S: Final = 6 * 3600.0
"""The time without faults at the beginning, in seconds."""

AFTER_S: Final = 60.0
"""An anomaly may begin this long after its fault has ended, in seconds."""


class Reported(NamedTuple):
    """An incident: when it was reported, began and was last seen, in seconds since the Unix epoch; whom it blames."""

    ts: float
    begin: float
    end: float
    row: str
    feature: str
    name: str


class Trace(NamedTuple):
    """The incidents of one machine."""

    kind: Kind
    days: float
    faults: tuple[Fault, ...]
    names: tuple[str, ...]
    reported: tuple[Reported, ...]
    notices: tuple[Reported, ...]


def drawn(machine: Machine, seed: int) -> tuple[Fault, ...]:
    """Draw faults, 10 minutes to an hour apart, of all kinds, sizes and lengths."""
    random = np.random.default_rng([seed, 11])
    own = np.flatnonzero(~machine.kernel)
    sizes = [(kind, size) for kind, each in SIZES.items() for size in each]
    found: list[Fault] = []
    ts = START + QUIET_S
    while True:
        kind, size = sizes[len(found) % len(sizes)]
        lasts = random.uniform(*LENGTHS_S[int(random.choice(len(LENGTHS_S), p=(0.45, 0.35, 0.2)))])
        if ts + lasts > START + machine.days * DAY_S - AFTER_S:
            return tuple(found)
        strength = float(np.log10(size / UNIT[kind]))
        found.append(Fault(kind, int(random.choice(own)), ts, ts + lasts, strength))
        ts += lasts + random.uniform(600.0, 3600.0)


class Alarm:
    """The way from frames to incidents: the operator `gaussian` as it is wired, and what joins its anomalies.

    Attributes:
        anomalies: all, in the order of their detection.
        notices: likewise, as they opened.
        ended: the last record of each anomaly that has ended, by its id.
        first: the first record of each incident, by its id.
        last: the newest record of each.

    """

    def __init__(self, assignments: Sequence[str] = ()) -> None:
        flags = [parse_assignment(each) for each in ("operators=gaussian", *assignments)]
        (wired,) = wire(read_settings(environ={}, flags=flags))
        self._task = wired.task(Partition("laggard.counters", 0))
        self._joiner = Joiner()
        self.anomalies: list[Anomaly] = []
        self.notices: list[Notice] = []
        self.ended: dict[str, Progress] = {}
        self.first: dict[str, Incident] = {}
        self.last: dict[str, Incident] = {}

    def take(self, frame: Frame) -> None:
        """Take the next frame."""
        self._task.receive(Incoming(self._task.partition, self._task.position, frame.key, b"", frame.ts), frame)
        for output in self._task.outputs:
            if isinstance(output, Anomaly):
                self.anomalies.append(output)
            if isinstance(output, Notice) and output.change == "opened":
                self.notices.append(output)
            if isinstance(output, Progress) and output.change == "ended":
                self.ended[output.id] = output
            if isinstance(output, Anomaly | Progress):
                for incident in self._joiner.take(output):
                    self.first.setdefault(incident.id, incident)
                    self.last[incident.id] = incident
        self._task.outputs.clear()


def trace(kind: Kind, days: float, seed: int, *, troubled: bool, set_: Sequence[str] = ()) -> Trace:
    """Run one machine."""
    faults = drawn(Machine(kind, days, seed), seed) if troubled else ()
    alarm, machine = Alarm(set_), Machine(kind, days, seed, faults)
    for number, tick in enumerate(machine.ticks()):
        alarm.take(Frame("host", "web-1", "process", tick.ts, number, tick.layout, tick.values))
        alarm.take(Frame("host", "web-1", "host", tick.ts, number, HOST_LAYOUT, tick.host))
    first, last, end = alarm.first, alarm.last, START + days * DAY_S
    reported = [_reported(first[each], last[each], end) for each in first if not last[each].merged_into]
    notices = tuple(_noticed(each) for each in alarm.notices)
    return Trace(kind, days, faults, tuple(machine.names), tuple(sorted(reported)), notices)


def _noticed(notice: Notice) -> Reported:
    blame = notice.blame or Blame("", "")
    return Reported(notice.ts, notice.ts, notice.ts, blame.row, blame.feature, blame.name)


def _reported(first: Incident, last: Incident, end: float) -> Reported:
    blame = last.blame
    until = last.until_ts if last.change == "closed" else end
    if blame is None:
        return Reported(first.ts, last.opened_ts, until, "", "", "")
    return Reported(first.ts, last.opened_ts, until, blame.row, blame.feature, blame.name)


def is_about(reported: Reported, fault: Fault, name: str) -> bool:
    """Return whether an incident is that of a fault: of its process or name, while it lasted."""
    return reported.name == name and fault.start <= reported.ts <= fault.end + AFTER_S


def tables(quiet: Sequence[Trace], troubled: Sequence[Trace]) -> str:
    """Return both tables in Markdown."""
    lines = ["| machine | false a day | ... on the first | notices a day |", "|---|---|---|---|"]
    for name in [*dict.fromkeys(each.kind.name for each in quiet), "all"]:
        mine = [each for each in quiet if name in {each.kind.name, "all"}]
        count = sum(len(each.reported) for each in mine)
        first = sum(reported.ts < START + DAY_S for each in mine for reported in each.reported)
        lines.append(
            f"| {name} | {rate(count, sum(each.days for each in mine))} "
            f"| {rate(first, sum(min(each.days, 1.0) for each in mine))} "
            f"| {rate(sum(len(each.notices) for each in mine), sum(each.days for each in mine))} |"
        )
    lines += ["", "| fault | 2 to 5 min | 5 to 10 min | 30 to 60 min |", "|---|---|---|---|"]
    found: dict[tuple[str, int], list[bool]] = {}
    delays, shares, times = [], [], []
    at_least = 0
    for each in troubled:
        for fault in each.faults:
            about = [reported for reported in each.reported if is_about(reported, fault, each.names[fault.process])]
            at_least += bool(about) or any(is_about(one, fault, each.names[fault.process]) for one in each.notices)
            size = UNIT[fault.kind] * 10.0**fault.strength
            length = sum(fault.end - fault.start >= least for least, _ in LENGTHS_S) - 1
            found.setdefault((f"{fault.kind} {size:g}", length), []).append(bool(about))
            if about:
                begin = about[0].ts
                delays.append(begin - fault.start)
                covered = sum(
                    max(0.0, min(reported.end, fault.end) - max(reported.begin, fault.start)) for reported in about
                )
                shares.append(covered / (fault.end - fault.start))
                times.append(len(about))
    for name in dict.fromkeys(name for name, _ in found):
        cells = [found.get((name, length), []) for length in range(len(LENGTHS_S))]
        lines.append(f"| {name} | " + " | ".join(f"{sum(cell)} of {len(cell)}" for cell in cells) + " |")
    every = [hit for hits in found.values() for hit in hits]
    lines += [
        "",
        f"Noticed: {sum(every)} of {len(every)} ({np.mean(every):.0%}), with notices {at_least / len(every):.0%}.",
        f"Delay: {np.median(delays):.0f} s, 90th percentile {np.percentile(delays, 90):.0f} s.",
        f"Open for {np.mean(shares):.0%} of a fault on average; reported once: {np.mean(np.array(times) == 1):.0%}.",
    ]
    return "\n".join(lines)


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[501], help="of the machines")
    parser.add_argument("--days", type=float, help="the most days of each machine")
    parser.add_argument("--kinds", type=int, nargs="+", default=range(len(KINDS)), help="numbers of machines")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="another setting")
    parser.add_argument("--list", action="store_true", help="list the false incidents")
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    runs = [(KINDS[kind][0], KINDS[kind][1], seed) for kind in asked.kinds for seed in asked.seeds]
    with ProcessPoolExecutor(asked.jobs) as pool:
        found = {
            troubled: [
                pool.submit(
                    partial(trace, troubled=troubled, set_=asked.set), kind, min(days, asked.days or days), seed
                )
                for kind, days, seed in runs
            ]
            for troubled in (False, True)
        }
        if asked.list:
            for one in found[False]:
                for each in one.result().reported:
                    hours = (each.ts - START) / 3600.0
                    lasted_s = each.end - each.begin
                    print(f"{one.result().kind.name}: {hours:.2f} h, {lasted_s:.0f} s, {each.row}, {each.feature}")
        print(tables(*([each.result() for each in found[troubled]] for troubled in (False, True))))


if __name__ == "__main__":
    main()
