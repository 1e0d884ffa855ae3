"""Tables II and III beside the paper's, as text (S3)."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING, Final

import numpy as np

from tests.evaluation.pools.methods import METHODS
from tests.evaluation.pools.scoring import Count, by_fault, threads, waves
from tests.evaluation.pools.simulation import PUBLISHED, load_test
from tests.evaluation.pools.workers import spread

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.evaluation.pools.scoring import Quality
    from tests.evaluation.pools.simulation import Fault

ALIKE: Final = ("noisy", "calm", "constant", "quantised")
"""Worlds whose threads `exhibit very similar behaviour`, as the recipe asks (section V.H, step 1). In the first the
method as published does what the paper says of it."""

STRENGTHS: Final = (1.0, 0.5, 0.2, 0.1)

PAPER_II: Final = (
    "100 100 50 100 100",
    "100 100 100 100 100",
    "100 100 66.67 83.33 100",
    "100 100 100 100 100",
    "100 100 100 100 100",
    "100 100 100 100 100",
    "100 100 50 100 100",
    "100 100 100 100 100",
    "100 100 100 83.33 100",
    "100 100 85.71 96.55 100",
)
PAPER_II_AVERAGE: Final = "100 100 86.67 96.67 100"
PAPER_III: Final = {
    "precision": "100",
    "precision (CPU spikes)": "100",
    "precision (memory leaks)": "100",
    "precision (I/O leaks)": "100",
    "recall": "76.61",
    "recall (CPU spikes)": "0",
    "recall (memory leaks)": "100",
    "recall (I/O leaks)": "100",
    "1-precision": "91.52",
    "2-precision": "87.13",
    "3-precision": "76.61",
}
_WORDS: Final[Mapping[Fault, str]] = {"spike": "CPU spikes", "memory": "memory leaks", "handles": "I/O leaks"}


class Level:
    """What a method made of the tests of one world and strength, at one level.

    Attributes:
        qualities: of the tests, or of the waves of all tests.
        counts: by fault, of the waves of all tests.

    """

    def __init__(self) -> None:
        self.qualities: list[Quality] = []
        self.counts: dict[Fault, list[Count]] = {fault: [] for fault in PUBLISHED}

    def averages(self) -> tuple[float, ...]:
        """Precision, recall, and k-recall or k-precision for k of 1, 2, 3, over what has them, in percent."""
        return tuple(
            _mean([(each.precision, each.recall, *each.top)[at] for each in self.qualities]) for at in range(5)
        )

    @property
    def false(self) -> int:
        """How many are ranked that do not deviate."""
        return sum(each.wrong for each in self.qualities)

    def recall(self, fault: Fault) -> tuple[int, int]:
        """Threads with this fault that are ranked, of how many."""
        return sum(each.ranked for each in self.counts[fault]), sum(each.there for each in self.counts[fault])

    def named(self, fault: Fault) -> int:
        """Of those with this fault, how many are ranked as of its kind."""
        return sum(each.named for each in self.counts[fault])

    def wrong(self, fault: Fault) -> int:
        """Threads that are ranked as of this kind, or of none, though nothing befell them."""
        return sum(each.wrong for each in self.counts[fault])

    def precision(self, fault: Fault) -> float:
        """In percent, averaged over waves as the paper does; with nothing ranked it is precise."""
        return _mean(
            [
                each.ranked / (each.ranked + each.wrong) if each.ranked + each.wrong else 1.0
                for each in self.counts[fault]
            ]
        )


def one(
    method: str, world: str, strength: float, seed: int, *levels: str
) -> tuple[Quality | None, list[tuple[Quality, dict[Fault, Count]]]]:
    """A test at the level of waves, and the waves of one at that of threads, as far as these levels are asked for."""
    rank = METHODS[method]
    wave, every = None, []
    if "wave" in levels:
        test = load_test(seed, world, "wave", strength=strength)
        wave = waves(test, rank(test).waves)
    if "thread" in levels:
        test = load_test(seed, world, "thread", strength=strength)
        for each, ranking in rank(test).threads.items():
            every.append((threads(test, each, ranking), by_fault(test, each, ranking)))
    return wave, every


def gather(
    methods: Sequence[str],
    worlds: Sequence[str],
    seeds: Sequence[int],
    workers: int,
    *,
    strengths: Sequence[float] = (1.0,),
    levels: Sequence[str] = ("wave", "thread"),
) -> dict[tuple[str, str, float], tuple[Level, Level]]:
    """By method, world and strength: waves and threads."""
    keys = [(each, world, much) for each in methods for world in worlds for much in strengths for _ in seeds]
    cases = [(*key, seed, *levels) for key, seed in zip(keys, cycle(seeds), strict=False)]
    found: dict[tuple[str, str, float], tuple[Level, Level]] = {}
    for key, (wave, every) in zip(keys, spread(one, cases, workers), strict=True):
        of_waves, of_threads = found.setdefault(key, (Level(), Level()))
        if wave is not None:
            of_waves.qualities.append(wave)
        for quality, counts in every:
            of_threads.qualities.append(quality)
            for fault, count in counts.items():
                of_threads.counts[fault].append(count)
    return found


def tables(methods: Sequence[str], worlds: Sequence[str], seeds: Sequence[int], workers: int) -> str:
    """Table II of the first world by tests and of all by averages; Table III of all."""
    levels = gather(methods, worlds, seeds, workers)
    rows = []
    for at, seed in enumerate(seeds):
        cells = [_percent(_of_one(levels[each, worlds[0], 1.0][0].qualities[at])) for each in methods]
        rows.append([f"seed {seed}", PAPER_II[at] if at < len(PAPER_II) else "", *cells])
    for world in worlds:
        cells = [_percent(levels[each, world, 1.0][0].averages()) for each in methods]
        rows.append([f"average, `{world}`", PAPER_II_AVERAGE, *cells])
    title = f"Table II: waves: precision, recall, 1-, 2-, 3-recall in % (single tests: `{worlds[0]}`)"
    parts = [_table(title, ["test", "S3", *methods], rows)]
    for world in worlds:
        columns = [_thread_cells(levels[each, world, 1.0][1]) for each in methods]
        rows = [[name, PAPER_III[name], *(column[name] for column in columns)] for name in PAPER_III]
        parts.append(_table(f"Table III: threads, in %: `{world}`", ["average", "S3", *methods], rows))
    return "\n\n".join(parts)


def strengths(methods: Sequence[str], worlds: Sequence[str], seeds: Sequence[int], workers: int) -> str:
    """Where it breaks: recall by fault, and how precise it stays, at parts of the published strength."""
    levels = gather(methods, worlds, seeds, workers, strengths=STRENGTHS, levels=("thread",))
    parts = []
    for method in methods:
        rows = []
        for world in worlds:
            for much in STRENGTHS:
                _, of_threads = levels[method, world, much]
                cells = []
                for fault in PUBLISHED:
                    found, there = of_threads.recall(fault)
                    cells.append(f"{found}/{there} ({of_threads.named(fault)})")
                rows.append([world, f"{much:g}", *cells, str(of_threads.false)])
        head = ["world", "strength", *(_WORDS[fault] for fault in PUBLISHED), "false"]
        parts.append(_table(f"Strengths, {method}: threads ranked (of these, named rightly)", head, rows))
    return "\n\n".join(parts)


def _thread_cells(level: Level) -> dict[str, str]:
    precision, recall, *top = level.averages()
    cells = {"precision": f"{_number(precision)} ({level.false} false)", "recall": _number(recall)}
    for fault, word in _WORDS.items():
        found, there = level.recall(fault)
        cells[f"precision ({word})"] = f"{_number(level.precision(fault))} ({level.wrong(fault)} false)"
        share = 100.0 * found / there if there else np.nan
        cells[f"recall ({word})"] = f"{_number(share)} ({found}/{there}, named {level.named(fault)})"
    cells.update({f"{k}-precision": _number(each) for k, each in enumerate(top, 1)})
    return cells


def _of_one(quality: Quality) -> tuple[float, ...]:
    return tuple(100.0 * each for each in (quality.precision, quality.recall, *quality.top))


def _mean(shares: Sequence[float]) -> float:
    there = [each for each in shares if not np.isnan(each)]
    return 100.0 * float(np.mean(there)) if there else np.nan


def _number(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.2f}".rstrip("0").rstrip(".")


def _percent(values: Sequence[float]) -> str:
    return " ".join(map(_number, values))


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[at]) for row in [head, *rows]) for at in range(len(head))]

    def line(row: Sequence[str]) -> str:
        return "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()

    return "\n".join([title, line(head), line(["-" * width for width in widths]), *map(line, rows)])
