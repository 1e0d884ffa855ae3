"""Pools of which little or nothing can be said: what an operator has to bear without an error, and without a word (S3).

Each is frames of some 400 ticks. Values are of five metrics with a common load, unless it is said otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from laggard.pipeline.core.records import make_layout
from tests.evaluation.pools.simulation import FEATURES, INTERVAL_S, START_TS, good_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from laggard.pipeline.core.records import Layout

    Series = NDArray[np.float64]
    Frames = Iterator[tuple[float, Layout, Series]]

TICKS: Final = 400


def _ordinary(members: int, seed: int = 1) -> Series:
    """Threads that behave alike, after their ramp-up, shape (ticks, members, features)."""
    return np.ascontiguousarray(good_threads(seed, "calm", count=members)[:, 100 : 100 + TICKS].transpose(1, 0, 2))


def _frames(values: Series, *, rows: Sequence[str] = (), features: Sequence[str] = FEATURES) -> Frames:
    """All members, at every tick."""
    rows = rows or [f"worker-{each + 1}" for each in range(values.shape[1])]
    layout = make_layout(rows, rows, features)
    for at, now in enumerate(values):
        yield START_TS + INTERVAL_S * at, layout, now.copy()


def _only(values: Series, there: NDArray[np.bool_]) -> Frames:
    """Those members that are there, shape (ticks, members); the others are no rows."""
    for at, now in enumerate(values):
        rows = [f"worker-{each + 1}" for each in np.flatnonzero(there[at])]
        yield START_TS + INTERVAL_S * at, make_layout(rows, rows, FEATURES), now[there[at]]


def nobody() -> Frames:
    """No member at any tick."""
    return _only(_ordinary(3), np.zeros((TICKS, 3), np.bool_))


def one() -> Frames:
    """One member: there are no others to be unlike."""
    return _frames(_ordinary(1))


def one_wild() -> Frames:
    """One member that leaks, and whose CPU jumps."""
    values = _ordinary(1)
    values[200:, 0, 1] *= np.linspace(1.0, 9.0, TICKS - 200)
    values[300:, 0, 0] = 1.0
    return _frames(values)


def two() -> Frames:
    """Two members that behave alike."""
    return _frames(_ordinary(2))


def two_unlike() -> Frames:
    """Two members that differ in all: the one that deviates cannot be known."""
    values = _ordinary(2)
    values[:, 1] *= 3.0
    return _frames(values)


def identical() -> Frames:
    """Eight members with the same values."""
    return _frames(np.repeat(_ordinary(1), 8, axis=1))


def all_different() -> Frames:
    """Eight members none of which is like another: each has its own scale and its own noise in each metric."""
    random = np.random.default_rng(1)
    scale = 10.0 ** random.uniform(0.0, 3.0, (8, 5))
    return _frames(scale * (10.0 + random.uniform(0.1, 3.0, (8, 5)) * random.standard_normal((TICKS, 8, 5))))


def constant() -> Frames:
    """One metric never changes, and is the same in all."""
    values = _ordinary(8)
    values[..., 3] = 12.0
    return _frames(values)


def all_constant() -> Frames:
    """No metric ever changes; all members are the same."""
    return _frames(np.broadcast_to(np.array([0.0, 1e9, 5e8, 12.0, 4.0]), (TICKS, 8, 5)))


def constants_of_their_own() -> Frames:
    """One metric never changes, and is another in each member: a port, the time of its start."""
    values = _ordinary(8)
    values[..., 3] = np.arange(8.0) + 8000.0
    return _frames(values)


def proportional() -> Frames:
    """One metric follows from another: covariances are singular."""
    values = _ordinary(8)
    values[..., 4] = 2.0 * values[..., 3]
    return _frames(values)


def one_metric() -> Frames:
    """A single metric."""
    return _frames(_ordinary(8)[..., :1], features=FEATURES[:1])


def no_metric() -> Frames:
    """Members, but no metric."""
    return _frames(_ordinary(8)[..., :0], features=())


def nan_metric() -> Frames:
    """One metric is NaN in all members at all ticks."""
    values = _ordinary(8)
    values[..., 2] = np.nan
    return _frames(values)


def nan_holes() -> Frames:
    """A tenth of all values is NaN."""
    values = _ordinary(8)
    values[np.random.default_rng(1).random(values.shape) < 0.1] = np.nan
    return _frames(values)


def nan_in_one() -> Frames:
    """One member never has one of the metrics."""
    values = _ordinary(8)
    values[:, 3, 2] = np.nan
    return _frames(values)


def all_nan() -> Frames:
    """Rows without a value."""
    return _frames(np.full((TICKS, 8, 5), np.nan))


def infinite() -> Frames:
    """A value is infinite now and then."""
    values = _ordinary(8)
    values[np.random.default_rng(1).random(values.shape) < 0.001] = np.inf
    return _frames(values)


def offset() -> Frames:
    """Values near 1e12 that vary by ones."""
    return _frames(1e12 + _ordinary(8) / np.array([0.01, 1e6, 1e6, 1.0, 1.0]))


def tiny() -> Frames:
    """Values near 1e-300."""
    return _frames(1e-300 * _ordinary(8))


def huge() -> Frames:
    """Values near 1e300, whose squares are infinite."""
    return _frames(1e290 * _ordinary(8))


def come_and_go() -> Frames:
    """Each of eight members is there at every other tick, by chance."""
    return _only(_ordinary(8), np.random.default_rng(1).random((TICKS, 8)) < 0.5)


def gaps() -> Frames:
    """Each of eight members misses one tick of ten, by chance."""
    return _only(_ordinary(8), np.random.default_rng(1).random((TICKS, 8)) < 0.9)


def in_turns() -> Frames:
    """Members with odd numbers at odd ticks, the others at even ones: none ever meets half of the pool."""
    return _only(_ordinary(8), np.arange(TICKS)[:, None] % 2 == np.arange(8) % 2)


def new_at_each_tick() -> Frames:
    """All members have new ids at each tick."""
    for at, values in enumerate(_ordinary(8)):
        rows = [f"worker-{8 * at + each}" for each in range(8)]
        yield START_TS + INTERVAL_S * at, make_layout(rows, ["worker"] * 8, FEATURES), values


def metrics_change() -> Frames:
    """Which metrics there are changes every 50 ticks, and so does their order."""
    for at, values in enumerate(_ordinary(8)):
        order = np.roll(np.arange(5), at // 50)[: 3 + at // 50 % 3]
        rows = [f"worker-{each + 1}" for each in range(8)]
        yield START_TS + INTERVAL_S * at, make_layout(rows, rows, [FEATURES[each] for each in order]), values[:, order]


def rows_change_places() -> Frames:
    """The rows stand in another order at each tick."""
    random = np.random.default_rng(1)
    for at, values in enumerate(_ordinary(8)):
        order = random.permutation(8)
        rows = [f"worker-{each + 1}" for each in order]
        yield START_TS + INTERVAL_S * at, make_layout(rows, rows, FEATURES), values[order]


def long_gap() -> Frames:
    """Nothing for a day, in the middle."""
    for at, (ts, layout, values) in enumerate(_frames(_ordinary(8))):
        yield ts + (86400.0 if at >= TICKS // 2 else 0.0), layout, values


def two_halves() -> Frames:
    """Four members are like each other, and the other four are: neither half is the majority."""
    values = _ordinary(8)
    values[:, 4:, :4] *= 2.0
    return _frames(values)


POOLS: Final[Mapping[str, Callable[[], Frames]]] = {
    each.__name__: each
    for each in (
        nobody,
        one,
        one_wild,
        two,
        two_unlike,
        identical,
        all_different,
        constant,
        all_constant,
        constants_of_their_own,
        proportional,
        one_metric,
        no_metric,
        nan_metric,
        nan_holes,
        nan_in_one,
        all_nan,
        infinite,
        offset,
        tiny,
        huge,
        come_and_go,
        gaps,
        in_turns,
        new_at_each_tick,
        metrics_change,
        rows_change_places,
        long_gap,
        two_halves,
    )
}
"""In none of them a member may be said to deviate."""


def _leaks(frames: Frames) -> Frames:
    """The same pool, but that the member `worker-3` leaks from the middle on: five times what it had."""
    for at, (ts, layout, values) in enumerate(frames):
        changed = values.copy()
        if at >= TICKS // 2 and "worker-3" in layout.rows and "memory_virtual_bytes" in layout.features:
            factor = 1.0 + 4.0 * (at - TICKS // 2) / (TICKS // 2)
            changed[layout.rows.index("worker-3"), layout.features.index("memory_virtual_bytes")] *= factor
        yield ts, layout, changed


LEAKING: Final[Mapping[str, Callable[[], Frames]]] = {
    each.__name__: lambda each=each: _leaks(each())  # type: ignore[misc]
    for each in (
        identical,
        constant,
        all_constant,
        constants_of_their_own,
        proportional,
        nan_metric,
        nan_holes,
        nan_in_one,
        infinite,
        gaps,
        rows_change_places,
    )
}
"""Pools of eight in which a leak still has to be found."""
