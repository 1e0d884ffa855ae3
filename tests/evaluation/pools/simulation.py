"""Simulated pools: threads that behave alike, and those of section V.H that do not (S3).

A thread serves work items, each for a while. Its micro-threads are the items in service at once. CPU, memory and
handles follow them, with noise, bursts and a slow growth of their own. All threads of a pool share the waves of its
load. A world sets how noisy and how uneven that is. The paper's data are not available, so a method has to work in all
worlds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
from scipy.signal import lfilter

from laggard.pipeline.core.records import make_layout

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from laggard.pipeline.core.records import Layout

    Series = NDArray[np.float64]

FEATURES: Final = ("cpu_ratio", "memory_virtual_bytes", "memory_private_bytes", "handles", "micro_threads")
"""Table I, in base units."""

CPU, VIRTUAL, PRIVATE, HANDLES, MICRO_THREADS = range(5)

INTERVAL_S: Final = 7.0
LIFE_S: Final = 7500.0
"""2 h 5 min, of a wave and of each of its threads (section V.C)."""

LIFE: Final = int(LIFE_S / INTERVAL_S)
"""In ticks."""

GOOD: Final = 12
WAVES: Final = 8
THREADS: Final = 10
START_TS: Final = 1_700_000_000.0
DAY_S: Final = 86400.0
MB: Final = 1e6

Fault = Literal["spike", "memory", "handles", "busy", "stuck", "slower", "left"]
"""The faults. The first three are the paper's: a CPU spike, a memory leak, an I/O leak."""

PUBLISHED: Final[tuple[Fault, ...]] = ("spike", "memory", "handles")
FAULTS: Final[tuple[Fault, ...]] = (*PUBLISHED, "busy", "stuck", "slower", "left")

KINDS: Final[Mapping[Fault, frozenset[str]]] = {
    "spike": frozenset({"spike"}),
    "memory": frozenset({"leak"}),
    "handles": frozenset({"leak"}),
    "busy": frozenset({"busy"}),
    "stuck": frozenset({"stuck"}),
    "slower": frozenset({"slower"}),
    "left": frozenset({"left"}),
}
"""The operator's words for them."""


@dataclass(frozen=True)
class World:
    """The differences between threads that behave alike.

    Attributes:
        items: in service at once in a thread under full load, on average.
        item_s: for which one is in service, on average.
        item_spread: of that: the standard deviation of its logarithm.
        noise: of the CPU that an item takes: the standard deviation of its logarithm, for some 20 s each.
        bursts_per_h: times that a thread computes for itself.
        burst_s: for how long, on average.
        burst_cpu_ratio: how much, on average.
        burst_tail: Pareto's exponent of length and height; infinite for exponential ones.
        swing: of the load, which all share: its standard deviation, beside the slow waves.
        spread: of what is each thread's for good, its share of the load and its memory: that of the logarithm.
        wander: the same, of what changes over hours.
        constant: features that never change, and are the same in all.
        cpu_step: in which CPU is reported; 0 for exact values.
        memory_step: the same, of the two of memory, in bytes.
        life_s: after which a thread ends and another begins, on average, in pools that run for days.

    """

    items: float = 60.0
    item_s: float = 90.0
    item_spread: float = 0.8
    noise: float = 0.08
    bursts_per_h: float = 4.0
    burst_s: float = 12.0
    burst_cpu_ratio: float = 0.04
    burst_tail: float = np.inf
    swing: float = 0.10
    spread: float = 0.02
    wander: float = 0.02
    constant: tuple[int, ...] = ()
    cpu_step: float = 0.0
    memory_step: float = 65536.0
    life_s: float = np.inf


WORLDS: Final[Mapping[str, World]] = {
    "calm": World(),
    "noisy": World(items=15.0, noise=0.3, bursts_per_h=20.0, burst_cpu_ratio=0.08, swing=0.25, spread=0.05),
    "heavy": World(item_spread=1.6, noise=0.15, bursts_per_h=6.0, burst_tail=1.5, spread=0.05, wander=0.05),
    "uneven": World(spread=0.4, wander=0.05),
    "wandering": World(wander=0.35),
    "constant": World(constant=(PRIVATE, HANDLES, MICRO_THREADS)),
    "quantised": World(items=8.0, cpu_step=0.01, memory_step=4 * 2.0**20, burst_cpu_ratio=0.02),
    "sparse": World(items=0.4, item_s=25.0, item_spread=1.0, spread=0.1),
    "recycled": World(life_s=2400.0, spread=0.1),
}
"""`recycled` is as `calm` where the threads' lives are given."""


@dataclass(frozen=True)
class Injection:
    """One thing that goes wrong.

    Attributes:
        row: id of the member that it befalls.
        fault: which.
        begin_ts: seconds since the Unix epoch.
        end_ts: of the last tick at which it is to be seen.
        feature: that it moves most.
        size: what CPU at its peak is, or memory or handles at their end by the largest before; as published, before
            `strength`.

    """

    row: str
    fault: Fault
    begin_ts: float
    end_ts: float
    feature: str
    size: float


@dataclass(frozen=True, eq=False)
class Pool:
    """A pool, from its first tick to its last.

    Attributes:
        rows: ids of the members, paths where they stand in groups.
        ts: shape (ticks,), seconds since the Unix epoch.
        values: shape (ticks, members, features); NaN while a member is not there.
        injections: what goes wrong, in the order of time.

    """

    rows: tuple[str, ...]
    ts: Series
    values: Series
    injections: tuple[Injection, ...] = ()
    _layouts: dict[bytes, Layout] = field(default_factory=dict)

    def frames(self) -> Iterator[tuple[float, Layout, Series]]:
        """Time, names and values of each tick, of the members that are there."""
        there = np.asarray(np.isfinite(self.values).any(axis=2))
        for at, ts in enumerate(self.ts):
            key = there[at].tobytes()
            if key not in self._layouts:
                rows = [row for row, is_there in zip(self.rows, there[at], strict=True) if is_there]
                self._layouts[key] = make_layout(rows, rows, FEATURES)
            yield float(ts), self._layouts[key], np.ascontiguousarray(self.values[at][there[at]])


@dataclass(frozen=True, eq=False)
class Bad:
    """Threads into which deviations were injected (section V.H, step 2).

    Attributes:
        values: shape (threads, ticks, features).
        faults: one per thread.
        begins: at which tick, one per thread.
        ends: the last tick, one per thread.
        sizes: see `Injection`.

    """

    values: Series
    faults: tuple[Fault, ...]
    begins: tuple[int, ...]
    ends: tuple[int, ...]
    sizes: tuple[float, ...]


def good_threads(seed: int, world: str, *, count: int = GOOD) -> Series:
    """Threads of one wave that behave alike, shape (threads, ticks, features): step 1 of section V.H."""
    random = _random(seed, world, 1)
    return _shown(WORLDS[world], _members(random, WORLDS[world], count, LIFE, INTERVAL_S, days=False))


def bad_threads(seed: int, world: str, good: Series, *, strength: float = 1.0) -> Bad:
    """The same threads with one deviation each, as many of each of the three kinds: step 2 of section V.H.

    The recipe leaves some choices open. Onsets are even over the life, except for its last 3 minutes, the longest time
    of a spike. `the previous maximum` is the largest value of the unchanged thread over its whole life. `strength`
    scales how far CPU rises above its level, and how much is leaked; not when and for how long.
    """
    random = _random(seed, world, 2)
    values = good.copy()
    faults = random.permutation(np.resize(np.array(PUBLISHED), len(good))).tolist()
    begins, ends, sizes = [], [], []
    for thread, fault in zip(values, faults, strict=True):
        begin = int(random.integers(1, LIFE - int(180.0 / INTERVAL_S)))
        end, size = inject(random, thread, fault, begin, INTERVAL_S, strength=strength)
        begins.append(begin)
        ends.append(end)
        sizes.append(size)
    return Bad(_shown(WORLDS[world], values), tuple(faults), tuple(begins), tuple(ends), tuple(sizes))


def load_test(
    seed: int, world: str = "calm", level: Literal["wave", "thread"] = "thread", *, strength: float = 1.0
) -> Pool:
    """A test of eight waves of ten threads each, one wave after the other: step 3 of section V.H.

    At the level of waves, none to three of them have two to four deviations each; at that of threads, each has none to
    three. The good threads of a wave are drawn from the twelve without replacement, and so are the bad ones, each of a
    kind that is drawn first. The rows' ids are paths, `wave-3/thread-7`.
    """
    good = good_threads(seed, world)
    bad = bad_threads(seed, world, good, strength=strength)
    random = _random(seed, world, 3 if level == "wave" else 4)
    counts = random.integers(0, 4, WAVES)
    if level == "wave":
        deviating = random.permutation(WAVES) < random.integers(0, 4)
        counts = np.where(deviating, random.integers(2, 5, WAVES), 0)
    values = np.full((WAVES * LIFE, WAVES * THREADS, len(FEATURES)), np.nan)
    ts = _times(WAVES * LIFE, INTERVAL_S) + random.uniform(-0.2, 0.2, WAVES * LIFE)
    rows = tuple(f"wave-{wave + 1}/thread-{thread + 1}" for wave in range(WAVES) for thread in range(THREADS))
    injections = []
    for wave, count in enumerate(counts):
        chosen: list[int] = []
        for _ in range(count):
            fault = random.choice(PUBLISHED)
            left = [each for each in range(GOOD) if bad.faults[each] == fault and each not in chosen]
            chosen.append(int(random.choice(left)))
        others = random.choice(GOOD, THREADS - count, replace=False)
        slots = random.permutation(THREADS) + THREADS * wave
        ticks = slice(LIFE * wave, LIFE * (wave + 1))
        for slot, each in zip(slots[:count].tolist(), chosen, strict=True):
            values[ticks, slot] = bad.values[each]
            begin, end = (float(ts[LIFE * wave + at]) for at in (bad.begins[each], bad.ends[each]))
            fault = bad.faults[each]
            injections.append(Injection(rows[slot], fault, begin, end, _MOVED[fault], bad.sizes[each]))
        values[ticks, slots[count:]] = good[others].transpose(1, 0, 2)
    return Pool(rows, ts, values, tuple(sorted(injections, key=lambda each: each.begin_ts)))


def healthy(seed: int, world: str, members: int, *, days: float, interval_s: float = INTERVAL_S) -> Pool:
    """A pool in which nothing goes wrong, its load with the rhythm of the day."""
    random = _random(seed, world, 5)
    ticks = int(days * DAY_S / interval_s)
    values = _members(random, WORLDS[world], members, ticks, interval_s, days=True)
    ts = _times(ticks, interval_s)
    life_s = WORLDS[world].life_s
    if np.isinf(life_s):
        rows, values = tuple(f"worker-{each + 1}" for each in range(members)), values.transpose(1, 0, 2)
    else:
        rows, values = _recycled(random, values, life_s / interval_s)
    return Pool(rows, ts, _shown(WORLDS[world], np.ascontiguousarray(values)))


def online(
    seed: int,
    world: str,
    fault: Fault,
    *,
    members: int = 10,
    strength: float = 1.0,
    hours: float = 6.0,
    interval_s: float = INTERVAL_S,
) -> Pool:
    """A pool all of whose members live from the first tick on, one of which goes wrong two to four hours later.

    The sizes are those of the recipe. A leak takes as long as a thread of the paper has on average, an hour, and what
    leaked is held until the end.
    """
    random = _random(seed, world, 6)
    ticks = int(3600.0 * hours / interval_s)
    values = _members(random, WORLDS[world], members, ticks, interval_s, days=True)
    who = int(random.integers(members))
    begin = int(random.uniform(2.0, 4.0) * 3600.0 / interval_s)
    end, size = inject(random, values[who], fault, begin, interval_s, strength=strength, leak_s=LIFE_S / 2)
    ts = _times(ticks, interval_s)
    rows = tuple(f"worker-{each + 1}" for each in range(members))
    shown = _shown(WORLDS[world], np.ascontiguousarray(values.transpose(1, 0, 2)))
    injection = Injection(rows[who], fault, float(ts[begin]), float(ts[end]), _MOVED[fault], size)
    return Pool(rows, ts, shown, (injection,))


_MOVED: Final[Mapping[Fault, str]] = {
    "spike": "cpu_ratio",
    "memory": "memory_virtual_bytes",
    "handles": "handles",
    "busy": "cpu_ratio",
    "stuck": "cpu_ratio",
    "slower": "micro_threads",
    "left": "cpu_ratio",
}


def inject(
    random: np.random.Generator,
    thread: Series,
    fault: Fault,
    begin: int,
    interval_s: float,
    *,
    strength: float = 1.0,
    leak_s: float = np.inf,
) -> tuple[int, float]:
    """Let a thread go wrong from a tick on, in place.

    Args:
        random: decides how much, and how long a spike lasts.
        thread: shape (ticks, features).
        fault: which.
        begin: the first tick.
        interval_s: of a tick.
        strength: 1 for as published.
        leak_s: for which a leak goes on, the end of the thread at the latest.

    Returns:
        The last tick at which it is to be seen, and its size (`Injection.size`).

    """
    last = len(thread) - 1
    if fault == "spike":
        length = max(2, round(random.uniform(60.0, 180.0) / interval_s))
        peak = float(random.uniform(0.5, 1.5))
        end = min(begin + length, last)
        ramp = np.interp(np.arange(begin, end + 1), [begin - 1, begin + length / 2, begin + length + 1], [0, 1, 0])
        level = float(np.median(thread[:, CPU]))
        thread[begin : end + 1, CPU] += strength * (peak - level) * ramp
        return end, peak
    if fault in {"memory", "handles"}:
        feature = VIRTUAL if fault == "memory" else HANDLES
        factor = float(random.uniform(1.5, 3.0) if fault == "memory" else random.uniform(1.25, 2.0))
        most = thread[:, feature].max()
        end = int(min(begin + leak_s / interval_s, last))
        ramp = np.minimum(np.arange(1, last - begin + 2) / (end - begin + 1), 1.0)
        thread[begin:, feature] += strength * (factor * most - thread[end, feature]) * ramp
        return last, factor
    size = 0.0
    if fault == "busy":
        size = float(random.uniform(2.0, 4.0))
        thread[begin:, CPU] *= 1.0 + strength * (size - 1.0)
    elif fault == "stuck":
        # It holds what it had in its hands; of its CPU nothing remains.
        thread[begin:, CPU] *= 1.0 - strength
        thread[begin:, 1:] += strength * (thread[begin, 1:] - thread[begin:, 1:])
    elif fault == "slower":
        # Each item takes longer: as many come as before, and are in service at once; the thread computes less.
        size = float(random.uniform(2.0, 4.0))
        thread[begin:, CPU] /= 1.0 + strength * (size - 1.0)
        thread[begin:, MICRO_THREADS] *= 1.0 + strength * (size - 1.0)
    else:
        thread[begin:] = np.nan
    return last, size


def _times(ticks: int, interval_s: float) -> Series:
    return START_TS + interval_s * np.arange(ticks, dtype=np.float64)


def _random(seed: int, world: str, purpose: int) -> np.random.Generator:
    return np.random.default_rng([seed, list(WORLDS).index(world), purpose])


def _members(
    random: np.random.Generator, world: World, members: int, ticks: int, interval_s: float, *, days: bool
) -> Series:
    """Return the members before their values are rounded to steps, shape (members, ticks, features)."""
    time = interval_s * np.arange(ticks)
    shape = members, ticks
    load = 0.75 + 0.15 * np.sin(2.0 * np.pi * (time / 1500.0 + random.uniform()))
    load += world.swing * _wandering(random, (1, ticks), 240.0 / interval_s)[0]
    if days:
        load *= 0.75 + 0.25 * np.sin(2.0 * np.pi * (time / DAY_S + random.uniform()))
    else:
        load *= 1.0 - np.exp(-(time + interval_s) / 120.0)
    share = world.spread * random.standard_normal((members, 1))
    share = np.exp(share + world.wander * _wandering(random, shape, 10_800.0 / interval_s))
    items = _in_service(random, world, share * load.clip(0.05, 1.5), interval_s, began_empty=not days)
    values = np.empty((*shape, len(FEATURES)))
    noise = np.exp(world.noise * _wandering(random, shape, 20.0 / interval_s))
    cpu = 0.01 + min(0.2 / world.items, 0.35) * items * noise + _bursts(random, world, shape, interval_s)
    # A thread of the kernel can use one core, except for the error of the tick's clock.
    values[..., CPU] = np.minimum(cpu, 1.0)
    weight = np.exp(
        world.spread * random.standard_normal((members, 1))
        + world.wander * _wandering(random, shape, 10_800.0 / interval_s)
    )
    # An allocator keeps most of what was ever in use, and gives some of it back after a while.
    kept = _kept(items, 1800.0 / interval_s) / max(world.items, 1.0)
    grown = 1.0 - np.exp(-time / 5400.0)
    private = weight * MB * (40.0 + 24.0 * items / max(world.items, 1.0) + 16.0 * kept + 20.0 * grown)
    values[..., PRIVATE] = private
    values[..., VIRTUAL] = 1.3 * private + MB * (120.0 + 24.0 * kept)
    values[..., HANDLES] = np.round(weight * (24.0 + 30.0 * items / max(world.items, 1.0)) + random.poisson(2.0, shape))
    values[..., MICRO_THREADS] = items
    for feature in world.constant:
        values[..., feature] = (0.0, 0.0, 64.0 * MB, 32.0, 8.0)[feature]
    return values


def _shown(world: World, values: Series) -> Series:
    """Return the values as they are reported: in steps, and never negative."""
    shown = np.maximum(values, 0.0)
    if world.cpu_step:
        shown[..., CPU] = np.round(shown[..., CPU] / world.cpu_step) * world.cpu_step
    for feature in (VIRTUAL, PRIVATE):
        shown[..., feature] = np.ceil(shown[..., feature] / world.memory_step) * world.memory_step
    for feature in (HANDLES, MICRO_THREADS):
        shown[..., feature] = np.round(shown[..., feature])
    return shown


def _wandering(random: np.random.Generator, shape: tuple[int, int], scale: float) -> Series:
    """Stationary Gaussian series of variance 1, each of which forgets within a number of ticks."""
    kept = np.exp(-1.0 / scale)
    fresh = random.standard_normal(shape) * np.sqrt(1.0 - kept * kept)
    fresh[:, 0] = random.standard_normal(shape[0])
    series: Series = lfilter([1.0], [1.0, -kept], fresh, axis=1)
    return series


def _kept(items: Series, scale: float) -> Series:
    """The largest so far, which falls toward the present within a number of ticks."""
    kept = np.empty_like(items)
    falls = 1.0 - np.exp(-1.0 / scale)
    now = items[:, 0].copy()
    for at in range(items.shape[1]):
        now = np.maximum(items[:, at], now + falls * (items[:, at] - now))
        kept[:, at] = now
    return kept


def _in_service(
    random: np.random.Generator, world: World, rate: Series, interval_s: float, *, began_empty: bool
) -> Series:
    """Return the number of items that each member has in service (M/G/infinity), at each tick."""
    members, ticks = rate.shape
    arrivals = random.poisson(world.items * interval_s / world.item_s * rate)
    mean_log = np.log(world.item_s) - 0.5 * world.item_spread**2
    served = np.empty((members, ticks))
    for member in range(members):
        began = np.repeat(np.arange(ticks), arrivals[member]).astype(np.float64)
        if not began_empty:
            # Those that came before the first tick: the rest of a stationary past of twenty lengths.
            past = random.poisson(20.0 * world.items * rate[member, 0])
            began = np.append(began, -random.uniform(0.0, 20.0 * world.item_s / interval_s, past))
        lasts = random.lognormal(mean_log, world.item_spread, len(began)) / interval_s
        # An item is counted at the ticks that fall into its time.
        first = np.ceil(np.maximum(began + random.uniform(0.0, 1.0, len(began)), 0.0))
        after = np.ceil(np.maximum(began + random.uniform(0.0, 1.0, len(began)) + lasts, first))
        change = np.bincount(np.minimum(first, ticks).astype(np.int64), minlength=ticks + 1)
        change = change - np.bincount(np.minimum(after, ticks).astype(np.int64), minlength=ticks + 1)
        served[member] = change[:ticks].cumsum()
    return served


def _bursts(random: np.random.Generator, world: World, shape: tuple[int, int], interval_s: float) -> Series:
    """CPU that a member takes for itself now and then: in a tick, the share of it that a burst covers."""
    members, ticks = shape
    count = random.poisson(world.bursts_per_h * interval_s / 3600.0 * members * ticks)
    who = random.integers(members, size=count)
    began = random.uniform(0.0, ticks, count)
    if np.isinf(world.burst_tail):
        lasts, height = random.exponential(1.0, (2, count))
    else:
        lasts, height = random.pareto(world.burst_tail, (2, count)) * (world.burst_tail - 1.0)
    # An hour at full use would not be called a burst of threads that behave alike.
    lasts = np.minimum(lasts * world.burst_s, 40.0) / interval_s
    height = np.minimum(height * world.burst_cpu_ratio, 0.9)
    covered = np.zeros((members, ticks + 1))
    for at in range(int(np.ceil(40.0 / interval_s)) + 1):
        tick = np.floor(began) + at
        share = (np.minimum(began + lasts, tick + 1.0) - np.maximum(began, tick)).clip(0.0)
        np.add.at(covered, (who, np.minimum(tick, ticks).astype(np.int64)), share * height)
    return covered[:, :ticks]


def _recycled(random: np.random.Generator, values: Series, life: float) -> tuple[tuple[str, ...], Series]:
    """Let members end after a time of their own, and begin again under another id with what a beginner has.

    Args:
        random: decides when.
        values: shape (members, ticks, features).
        life: mean, in ticks.

    Returns:
        The ids, and values of shape (ticks, ids, features).

    """
    members, ticks, _ = values.shape
    rows: list[str] = []
    series: list[Series] = []
    for member in range(members):
        begin = -int(random.uniform(0.0, life))
        generation = 0
        while begin < ticks:
            end = begin + int(life * random.uniform(0.75, 1.25))
            ticks_there = slice(max(begin, 0), min(end, ticks))
            mine = np.full((ticks, values.shape[2]), np.nan)
            mine[ticks_there] = values[member, ticks_there]
            # A beginner holds little, and gets to what the others hold within some minutes.
            age = np.arange(ticks)[ticks_there] - begin
            filled = 1.0 - 0.5 * np.exp(-age / (life / 12.0))
            mine[ticks_there, VIRTUAL : HANDLES + 1] *= filled[:, None]
            if ticks_there.stop > ticks_there.start:
                generation += 1
                rows.append(f"worker-{member + 1}[{generation}]")
                series.append(mine)
            # The one that takes its place is there some ticks later.
            begin = end + int(random.integers(0, 3))
    return tuple(rows), np.stack(series, axis=1)
