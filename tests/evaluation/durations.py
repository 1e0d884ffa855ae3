"""How long incidents of pools, services and applications are open, beside how long the faults last.

    python -m tests.evaluation.durations                         # all streams, in some minutes
    python -m tests.evaluation.durations --only busy --seeds 1   # one of them
    python -m tests.evaluation.durations --hours 12              # false incidents of streams without faults

See `README.md` for what is simulated and what the columns mean.
"""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from laggard.pipeline.core.bus import Incoming, Partition
from laggard.pipeline.core.engine.stage import RecordTask
from laggard.pipeline.core.records import Frame, Request, Spent, make_layout
from laggard.pipeline.core.records.outputs import Anomaly, Progress
from laggard.pipeline.manifest import read_settings
from laggard.pipeline.methods.applications.method import regression_stage
from laggard.pipeline.methods.incidents.joiner import Joiner
from laggard.pipeline.methods.pools.method import pool_stage
from laggard.pipeline.methods.requests.method import requests_stage
from tests.evaluation.pools.simulation import CPU, FEATURES, HANDLES, MICRO_THREADS, PRIVATE, VIRTUAL, healthy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from laggard.pipeline.core.engine.stage import Stage
    from laggard.pipeline.core.records import Received

START: Final = 1_700_000_000.0
MINUTES: Final = (2.0, 5.0, 15.0, 30.0)
"""The lengths of faults, in this order in each stream."""

BEFORE_S: Final = 3600.0
BEFORE_TICKS: Final = 300.0
"""The time without faults at the beginning, whichever is longer, ..."""

AFTER_S: Final = 1200.0
"""... and after each of them, in seconds."""


class Fault(NamedTuple):
    """A fault: from its begin until the last moment at which it is to be seen, in seconds since the Unix epoch."""

    begin_ts: float
    end_ts: float


class Open(NamedTuple):
    """An incident: when its first and its last record were published, and its reported end; NaN while it is open."""

    opened_ts: float
    closed_ts: float = math.nan
    until_ts: float = math.nan


class Row(NamedTuple):
    """What was reported of one fault, in seconds.

    Attributes:
        stream: the fault, and where it is.
        minutes: its length.
        delay_s: from its begin to the first incident; NaN if there is none.
        covered: the share of it, after that, in which an incident was open.
        incidents: how many were opened until the next fault.
        lag_s: from its end until the last of them was closed; negative if none was open at its end.
        until_s: from its end to the reported one.

    """

    stream: str
    minutes: float
    delay_s: float
    covered: float
    incidents: int
    lag_s: float
    until_s: float


def faults(tick_s: float, lengths: Sequence[float] = MINUTES) -> list[Fault]:
    """The faults of a stream; each is seen first at the tick after its begin."""
    found, at = [], START + max(BEFORE_S, BEFORE_TICKS * tick_s)
    for minutes in lengths:
        length_s = max(60.0 * minutes, tick_s)
        found.append(Fault(at, at + length_s))
        at += length_s + AFTER_S
    return found


def span_s(there: Sequence[Fault]) -> float:
    """The length of a stream with these faults."""
    return there[-1].end_ts + AFTER_S - START if there else BEFORE_S


# Pools.


def pool(
    kind: str, seed: int, there: Sequence[Fault], length_s: float, *, world: str = "calm", tick_s: float = 5.0
) -> Iterator[Received]:
    """A pool of ten members, one of which goes wrong at a time."""
    made = healthy(seed, world, 10, days=length_s / 86400.0, interval_s=tick_s)
    values = made.values.copy()
    ts = START + tick_s * np.arange(len(values))
    for number, fault in enumerate(there):
        member = values[(ts > fault.begin_ts) & (ts <= fault.end_ts), number % 10]  # a copy
        match kind:
            case "busy":
                member[:, CPU] = np.minimum(member[:, CPU] * 3.0, 1.0)
            case "memory":
                member[:, [VIRTUAL, PRIVATE]] += 80e6
            case "leak":
                share = np.arange(1, len(member) + 1) / len(member)
                member[:, [VIRTUAL, PRIVATE]] += 400e6 * share[:, None]
            case "handles":
                member[:, HANDLES] += 60.0
            case "stuck":
                member[:, CPU], member[:, 1:] = 0.0, member[0, 1:]
            case "slower":
                member[:, CPU] /= 2.5
                member[:, MICRO_THREADS] *= 2.5
        values[(ts > fault.begin_ts) & (ts <= fault.end_ts), number % 10] = member
    layout = make_layout(made.rows, made.rows, FEATURES)
    for tick, each in enumerate(values):
        yield Frame("pool", "workers", "member", float(ts[tick]), tick, layout, each)


# Services.


def service(kind: str, seed: int, there: Sequence[Fault], length_s: float, *, per_s: float = 4.0) -> Iterator[Received]:
    """A service some of whose requests wait for a lock or a disk, or take another way and are slow for that."""
    draw = np.random.default_rng([seed, 7])
    share = {"lock": 0.1, "disk": 0.3, "rare": 0.02}[kind]
    ends = np.sort(START + draw.uniform(0.0, length_s, round(per_s * length_s)))
    for number, end_ts in enumerate(ends.tolist()):
        times_s = {"RU": 0.05 * float(np.exp(0.2 * draw.standard_normal())), "RS": 0.01 + 0.002 * draw.random()}
        calls, spent = ["openat", "read", "fstat", "write", "close"], []
        chance, lost_s = draw.random(), 0.3 + 0.2 * draw.random()
        if any(each.begin_ts < end_ts <= each.end_ts for each in there) and chance < share:
            state, call, on = ("BD", "read", "/srv/data") if kind == "disk" else ("BT", "fcntl", "/srv/x.lock")
            times_s[state] = lost_s
            calls.insert(2, call)
            spent.append(Spent(state, call, on, "worker", 812, "", 1, lost_s))
        elif chance > 0.9995:
            times_s["BD"] = lost_s
        duration_s = sum(times_s.values())
        counts = dict.fromkeys(times_s, 3.0)
        yield Request(
            "shop", end_ts - duration_s, f"r{number}", duration_s, counts, times_s, tuple(calls), number,
            host="web-1", spent=tuple(spent),
        )  # fmt: skip


# Applications.

NOISE: Final = {"even": 0.05, "noisy": 0.15}
COUNTERS: Final = ("cpu_user_ratio", "cpu_wait_ratio", "io_delay_ratio", "memory_rss_bytes")


def application(
    kind: str, seed: int, there: Sequence[Fault], length_s: float, *, tick_s: float = 10.0, slower: float = 4.0
) -> Iterator[Received]:
    """An application one of whose two hosts is short of CPU at times."""
    draw = np.random.default_rng([seed, 8])
    layout = make_layout(["shop"], ["shop"], ["throughput_per_s", "response_time_mean_s"])
    rows = make_layout(["nginx[1@1]", "job[2@1]"], ["nginx", "job"], COUNTERS)
    for tick in range(1, int(length_s / tick_s) + 1):
        ts = START + tick_s * tick
        short = any(each.begin_ts < ts <= each.end_ts for each in there)
        load = draw.uniform(0.3, 0.6)
        response_s = 0.03 / (1.0 - load) * float(np.exp(NOISE[kind] * draw.standard_normal()))
        values = np.array([[100.0 * load, response_s * (slower if short else 1.0)]])
        yield Frame("application", "shop", "performance", ts, tick, layout, values)
        for host in ("web-1", "db-1"):
            seen = np.column_stack([load + 0.05 * draw.random(2), 0.02 * draw.random((2, 2)), 1e8 + draw.random(2)])
            seen[0, 1] += 0.4 * (short and host == "web-1")
            yield Frame("application", "shop", "process", ts + 0.01, tick, rows, seen, (host,))


class Stream(NamedTuple):
    """A simulated stream: the stage that judges it, the length of its ticks, and what makes its records."""

    stage: str
    tick_s: float
    make: Callable[[int, Sequence[Fault], float], Iterator[Received]]


def _pool(kind: str, world: str = "calm", tick_s: float = 5.0) -> Stream:
    return Stream("pool", tick_s, lambda *given: pool(kind, *given, world=world, tick_s=tick_s))


def _service(kind: str) -> Stream:
    return Stream("service", 10.0, lambda *given: service(kind, *given))


def _application(kind: str, tick_s: float) -> Stream:
    return Stream("application", tick_s, lambda *given: application(kind, *given, tick_s=tick_s))


STREAMS: Final[Mapping[str, Stream]] = {
    **{f"pool, {kind}": _pool(kind) for kind in ("busy", "memory", "leak", "handles", "stuck", "slower")},
    **{f"pool, {kind}, noisy": _pool(kind, "noisy") for kind in ("busy", "memory")},
    "pool, busy, 30 s": _pool("busy", tick_s=30.0),
    "pool, memory, 60 s": _pool("memory", tick_s=60.0),
    **{f"service, {kind}": _service(kind) for kind in ("lock", "disk", "rare")},
    **{f"application, {kind}, {tick_s:g} s": _application(kind, tick_s) for tick_s in (10.0, 60.0) for kind in NOISE},
}


def task_of(stage: str) -> RecordTask:
    """Make the task of a stage, as the default settings have it."""
    settings = read_settings(environ={})
    made = {"pool": pool_stage, "service": requests_stage, "application": regression_stage}
    wired: Stage = made[stage](settings)  # type: ignore[operator]
    task = wired.task(Partition(wired.topic.name, 0), live=True)
    assert isinstance(task, RecordTask)
    task.states.load(())
    task.states.follow()
    return task


def reported(task: RecordTask, records: Iterator[Received]) -> list[Open]:
    """The incidents of one key, in the order in which they were opened."""
    joiner = Joiner()
    found: dict[str, Open] = {}
    for offset, each in enumerate(records):
        key = each.service if isinstance(each, Request) else each.key  # type: ignore[union-attr]
        task.receive(Incoming(task.partition, offset, key, b"", each.ts), each)
        outputs = list(task.outputs)
        task.outputs.clear()
        for output in outputs:
            if not isinstance(output, Anomaly | Progress):
                continue
            for incident in joiner.take(output):
                if incident.change == "opened":
                    found[incident.id] = Open(incident.ts)
                elif incident.change == "closed" and incident.merged_into:
                    del found[incident.id]
                elif incident.change == "closed":
                    found[incident.id] = found[incident.id]._replace(closed_ts=incident.ts, until_ts=incident.until_ts)
    return list(found.values())


def rows_of(name: str, there: Sequence[Fault], incidents: Sequence[Open]) -> list[Row]:
    """What was reported of each fault."""
    found = []
    for number, fault in enumerate(there):
        until = there[number + 1].begin_ts if number + 1 < len(there) else math.inf
        of = [each for each in incidents if fault.begin_ts < each.opened_ts <= until]
        seen = [each for each in of if each.opened_ts <= fault.end_ts]
        first = seen[0].opened_ts if seen else math.nan
        covered_s, at = 0.0, first
        for each in seen:
            stop = min(fault.end_ts, each.closed_ts) if math.isfinite(each.closed_ts) else fault.end_ts
            covered_s, at = covered_s + max(stop - max(at, each.opened_ts), 0.0), max(at, stop)
        last = max((each.closed_ts for each in of), default=math.nan)
        left_s = fault.end_ts - first
        found.append(
            Row(
                name,
                (fault.end_ts - fault.begin_ts) / 60.0,
                first - fault.begin_ts,
                covered_s / left_s if left_s > 0.0 else float(bool(seen)),
                len(of),
                last - fault.end_ts,
                max((each.until_ts for each in of), default=math.nan) - fault.end_ts,
            )
        )
    return found


def run(name: str, seed: int, lengths: Sequence[float] = MINUTES) -> list[Row]:
    """One stream for each length of its fault: after the first one the limit would be another."""
    stream = STREAMS[name]
    found = []
    for minutes in lengths:
        there = faults(stream.tick_s, (minutes,))
        found += rows_of(name, there, reported(task_of(stream.stage), stream.make(seed, there, span_s(there))))
    return found


def false_incidents(name: str, seed: int, hours: float) -> int:
    """How many incidents a stream without faults has."""
    stream = STREAMS[name]
    return len(reported(task_of(stream.stage), stream.make(seed, (), 3600.0 * hours)))


def table(rows: Sequence[Row]) -> str:
    """In Markdown, a line for each fault of each stream, medians over seeds; of the lag and the end the worst ones."""
    lines = [
        "| fault | minutes | opened | after, s | open for | incidents | closed after its end, s | reported end, s |",
        "|---" * 8 + "|",
    ]
    for name, minutes in dict.fromkeys((each.stream, each.minutes) for each in rows):
        of = [each for each in rows if (each.stream, each.minutes) == (name, minutes)]
        seen = [each for each in of if math.isfinite(each.delay_s)]
        told = [f"{len(seen)} of {len(of)}"] + ["-"] * 5
        if seen:
            ends = [each.until_s for each in seen]
            told[1:] = [
                f"{np.median([each.delay_s for each in seen]):.0f}",
                f"{min(each.covered for each in seen):.0%}",
                f"{max(each.incidents for each in seen)}",
                _range([each.lag_s for each in seen]),
                _range(ends),
            ]
        lines.append(f"| {name} | {minutes:g} | {' | '.join(told)} |")
    return "\n".join(lines)


def _range(values: Sequence[float]) -> str:
    """The least and the largest; `open` for what was not closed."""
    known = sorted(each for each in values if not math.isnan(each))
    shown = [*dict.fromkeys(f"{each:.0f}" for each in known), *(["open"] if len(known) < len(values) else [])]
    return shown[0] if len(shown) == 1 else f"{shown[0]} to {shown[-1]}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, or the false incidents."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", default="", help="streams whose names hold this")
    options.add_argument("--seeds", type=int, default=2)
    options.add_argument("--hours", type=float, default=0.0, help="without faults, for so long")
    given = options.parse_args(arguments)
    names = [each for each in STREAMS if given.only in each]
    seeds = range(1, given.seeds + 1)
    if given.hours:
        for name in names:
            counts = [false_incidents(name, seed, given.hours) for seed in seeds]
            print(f"{name}: {sum(counts)} incidents in {given.hours * len(counts):g} h")
        return
    print(table([each for name in names for seed in seeds for each in run(name, seed)]))


if __name__ == "__main__":
    main()
