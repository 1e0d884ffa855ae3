"""A day of use that flaps round the threshold: how many events the operator `cpu` makes of it, and a plain threshold.

`README.md` says what happens and what came of it.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from laggard.operators.calibration import QUIET_S
from laggard.operators.cpu import Cpu, State
from laggard.pipeline.alarms.trigger import Trigger
from laggard.pipeline.core.records import make_layout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    Vector = NDArray[np.float64]

THRESHOLD, DURATION_S = 0.85, 5.0
DAY_S: Final = 86_400
START: Final = 1.7e9
CPUS: Final = 4.0

FINE_S: Final = 0.1
"""The resolution of simulated use: a reading is the mean over its tick."""


@dataclass(frozen=True)
class Kind:
    """A kind of use.

    Attributes:
        told: what it is, for the table.
        make: draws the use of a process, as a share of all CPUs, for a number of steps of `FINE_S`.

    """

    told: str
    make: Callable[[np.random.Generator, int], Vector]


def switching(high: float, low: float, high_s: float, low_s: float) -> Callable[[np.random.Generator, int], Vector]:
    """High and low in turn, each for an exponential time."""

    def make(chance: np.random.Generator, steps: int) -> Vector:
        pairs = math.ceil(3.0 * steps * FINE_S / (high_s + low_s)) + 10
        spans = chance.exponential([high_s, low_s], (pairs, 2)).ravel() / FINE_S
        levels = np.tile([high, low], pairs)
        return np.repeat(levels, np.maximum(spans.round().astype(int), 1))[:steps]

    return make


def white(chance: np.random.Generator, steps: int) -> Vector:
    """A level at the threshold, with other noise each second."""
    each_s = round(1.0 / FINE_S)
    return np.repeat(chance.normal(THRESHOLD, 0.05, -(-steps // each_s)), each_s)[:steps]


def wandering(chance: np.random.Generator, steps: int) -> Vector:
    """A level that wanders round the threshold, and forgets where it was with a time constant of 30 s."""
    keep = math.exp(-FINE_S / 30.0)
    shocks = chance.normal(0.0, 0.05 * math.sqrt(1.0 - keep * keep), steps)
    level, found = 0.0, np.empty(steps)
    for step in range(steps):
        level = found[step] = level * keep + shocks[step]
    return THRESHOLD + found


def periodic(chance: np.random.Generator, steps: int) -> Vector:
    """A wave round the threshold with a period of 20 s."""
    periods = np.arange(steps) * FINE_S / 20.0 + chance.random()
    return np.asarray(THRESHOLD + 0.1 * np.sin(2.0 * np.pi * periods), np.float64)


def bursts(chance: np.random.Generator, steps: int) -> Vector:
    """Two seconds of all CPUs, every ten seconds or so."""
    found = np.full(steps, 0.1)
    at = 0.0
    while at < steps * FINE_S:
        found[round(at / FINE_S) : round((at + 2.0) / FINE_S)] = 1.0
        at += chance.uniform(6.0, 14.0)
    return found


def jobs(chance: np.random.Generator, steps: int) -> Vector:
    """A job of one to ten minutes every half an hour or so, that pauses for half a second to four now and then."""
    found = np.full(steps, 0.05)
    for begin, end in job_times(np.random.default_rng(chance.integers(1 << 32)), steps * FINE_S):
        found[round(begin / FINE_S) : round(end / FINE_S)] = 0.95
        at = begin + chance.exponential(20.0) + 6.0
        while at < end - 10.0:
            pause_s = chance.uniform(0.5, 4.0)
            found[round(at / FINE_S) : round((at + pause_s) / FINE_S)] = 0.2
            at += pause_s + 6.0 + chance.exponential(20.0)
    return found


def job_times(chance: np.random.Generator, seconds: float) -> Iterator[tuple[float, float]]:
    """When jobs begin and end, in seconds."""
    at = chance.uniform(60.0, 1800.0)
    while True:
        end = at + chance.uniform(60.0, 600.0)
        if end > seconds - 60.0:
            return
        yield at, end
        at = end + chance.uniform(300.0, 2400.0)


KINDS: Final[Mapping[str, Kind]] = {
    "switching": Kind("0.92 and 0.78 in turn, 8 s and 4 s long on average", switching(0.92, 0.78, 8.0, 4.0)),
    "busy": Kind("0.97, with dips to 0.5 of 1.5 s on average every minute", switching(0.97, 0.5, 60.0, 1.5)),
    "white": Kind("another value each second, normal, 0.85 ± 0.05", white),
    "wandering": Kind("0.85 ± 0.05, with a time constant of 30 s", wandering),
    "periodic": Kind("a wave of 0.85 ± 0.1 with a period of 20 s", periodic),
    "bursts": Kind("2 s of all CPUs, each 10 s on average", bursts),
    "jobs": Kind("jobs of 1 to 10 minutes at 0.95, with pauses of 0.5 to 4 s", jobs),
}

Count = dict[str, int]


def readings(use: Mapping[str, Vector], interval_s: float) -> NDArray[np.float64]:
    """What the ticks of an agent say of it, shape (ticks, kinds)."""
    size = round(interval_s / FINE_S)
    return np.stack([each[: len(each) // size * size].reshape(-1, size).mean(axis=1) for each in use.values()], axis=1)


def plain(values: NDArray[np.float64], kinds: Sequence[str]) -> Count:
    """How often a plain threshold is passed upwards."""
    high = np.vstack([np.zeros((1, values.shape[1]), bool), values >= THRESHOLD])
    return dict(zip(kinds, (high[1:] & ~high[:-1]).sum(axis=0).tolist(), strict=True))


def lasting(values: NDArray[np.float64], kinds: Sequence[str], interval_s: float) -> Count:
    """How often a threshold has been passed for `DURATION_S`, over as soon as it is not: an alert with `for: 5s`."""
    found = {}
    for place, kind in enumerate(kinds):
        count = run = 0
        for high in (values[:, place] >= THRESHOLD).tolist():
            run = run + 1 if high else 0
            count += run == math.ceil(DURATION_S / interval_s)
        found[kind] = count
    return found


def events(operator: Cpu, values: NDArray[np.float64], kinds: Sequence[str], interval_s: float) -> tuple[Count, Count]:
    """How many events the operator finds, and how many anomalies a worker tells that has each kind on a host alone."""
    layout = make_layout([f"{kind}[{pid}@1]" for pid, kind in enumerate(kinds)], kinds, ["cpu_user_ratio", "cpus"])
    found, told = dict.fromkeys(kinds, 0), dict.fromkeys(kinds, 0)
    triggers = dict.fromkeys(kinds, Trigger())
    before: set[str] = set()
    for tick, row in enumerate(values):
        ts, frame = START + tick * interval_s, np.stack([row * CPUS, np.full(len(row), CPUS)], axis=1)
        open_ = operator.score(ts, layout, frame).events.get("cpu", {})
        operator.learn(ts, layout, frame)
        now = {event.name for event in open_.values() if event.state >= State.DIAGNOSIS}
        for kind in kinds:
            fires, triggers[kind] = triggers[kind].after(ts, 2.0 if kind in now else 0.0, QUIET_S)
            found[kind] += kind in now and kind not in before
            told[kind] += fires
        before = now
    return found, told


def count(seconds: float, seed: int, kinds: Sequence[str] = tuple(KINDS)) -> dict[str, Count]:
    """By method, how many events it makes of each kind of use."""
    chance = np.random.default_rng(seed)
    use = {kind: np.clip(KINDS[kind].make(chance, round(seconds / FINE_S)), 0.0, 1.0) for kind in kinds}
    each_s, each_5_s = readings(use, 1.0), readings(use, 5.0)
    found, told = events(Cpu(), each_s, kinds, 1.0)
    return {
        "plain threshold": plain(each_s, kinds),
        "... for 5 s": lasting(each_s, kinds, 1.0),
        "`cpu`": found,
        "... anomalies told": told,
        "`cpu`, `mean`": events(Cpu(smoothing="mean"), each_s, kinds, 1.0)[0],
        "`cpu`, `trimmed`": events(Cpu(smoothing="trimmed"), each_s, kinds, 1.0)[0],
        "5 s ticks: plain": plain(each_5_s, kinds),
        "5 s ticks: `cpu`": events(Cpu(), each_5_s, kinds, 5.0)[0],
    }


def table(found: Mapping[str, Count], kinds: Sequence[str]) -> str:
    """In Markdown, one row a kind."""
    lines = [f"| use | {' | '.join(found)} |", f"|---{'|---' * len(found)}|"]
    lines += [f"| {KINDS[kind].told} | {' | '.join(f'{each[kind]:,}' for each in found.values())} |" for kind in kinds]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.evaluation.flapping", description=__doc__)
    parser.add_argument("--hours", type=float, default=24.0, help="how long it is simulated")
    parser.add_argument("--seed", type=int, default=1, help="of the use")
    given = parser.parse_args(arguments)
    print(table(count(given.hours * 3600.0, given.seed), tuple(KINDS)))


if __name__ == "__main__":
    main()
