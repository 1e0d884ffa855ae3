"""What is tried: the method as published, the operator, and the operator as `laggard replay` runs it (S3)."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from laggard.operators.covariance import Covariance
from laggard.operators.covariance.published import aggregated, published
from laggard.pipeline.core.records import UNNUMBERED, Frame, write_line
from laggard.pipeline.explaining.counters import RESOLUTION
from tests.evaluation.pools.scoring import Cluster, wave_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from tests.evaluation.pools.simulation import Pool


@dataclass(frozen=True)
class Rankings:
    """What a method makes of a whole test.

    Attributes:
        waves: ranked, by name.
        threads: by wave, its threads ranked.

    """

    waves: Sequence[Cluster]
    threads: Mapping[str, Sequence[Cluster]]


def as_published(test: Pool) -> Rankings:
    """Section IV as it stands: the waves, each the mean of its threads, and the threads of each wave."""
    groups: dict[str, dict[str, NDArray[np.float64]]] = {}
    for at, row in enumerate(test.rows):
        samples = test.values[:, at]
        groups.setdefault(wave_of(row), {})[row] = samples[np.isfinite(samples).any(axis=1)]
    waves = {wave: aggregated(list(members.values())) for wave, members in groups.items()}
    found = {
        name: [Cluster(tuple(each.dendrogram.labels[leaf] for leaf in ranked.leaves)) for ranked in each.ranking]
        for name, each in published({"": waves, **groups}).items()
        if each.dendrogram is not None
    }
    return Rankings(found.pop(""), found)


def adaptive(test: Pool) -> Rankings:
    """What the operator reports of the whole life of the pool, after its last tick."""
    operator = Covariance(resolution=RESOLUTION)
    for ts, layout, values in test.frames():
        operator.learn(ts, layout, values)
    told = operator.report(replicates=0).ranking
    return _sorted_out(test, ((each.rows, each.kind) for each in told if each.score > 1.0))


def replayed(test: Pool) -> Rankings:
    """The same end to end: the last word of `laggard replay --json` on a file of JSON lines."""
    with tempfile.TemporaryDirectory(prefix="laggard-pools-") as folder:
        recording = Path(folder) / "test.jsonl"
        write(test, recording)
        command = [sys.executable, "-P", "-m", "laggard.pipeline.cli", "replay", str(recording), "--json"]
        done = subprocess.run(
            [*command, "--operators", "covariance"], capture_output=True, text=True, check=False, timeout=1800
        )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: exit status {done.returncode}: {done.stderr[-2000:]}")
    told = [each for each in map(json.loads, done.stdout.splitlines()) if each["kind"] == "pool"]
    if not told:
        raise RuntimeError(f"{' '.join(command)}: expected a record of kind `pool`, got {done.stdout[-2000:]!r}")
    return _sorted_out(test, ((tuple(each["rows"]), each["kind"]) for each in told[-1]["ranking"]))


METHODS: Final[Mapping[str, Callable[[Pool], Rankings]]] = {
    "published": as_published,
    "adaptive": adaptive,
    "replayed": replayed,
}


def write(pool: Pool, path: Path, name: str = "threads") -> None:
    """A pool as JSON lines, one tick a line."""
    with path.open("w") as file:
        for ts, layout, values in pool.frames():
            file.write(write_line(Frame("pool", name, "member", ts, UNNUMBERED, layout, values)) + "\n")


def _sorted_out(test: Pool, told: Iterable[tuple[tuple[str, ...], str]]) -> Rankings:
    """Whole waves to the waves, what stands in one wave to its threads."""
    sizes: dict[str, int] = {}
    for row in test.rows:
        sizes[wave_of(row)] = sizes.get(wave_of(row), 0) + 1
    waves: list[Cluster] = []
    threads: dict[str, list[Cluster]] = {wave: [] for wave in sizes}
    for rows, kind in told:
        among = {row if row in sizes else wave_of(row) for row in rows}
        if set(rows) <= sizes.keys() or len(rows) == sum(sizes[wave] for wave in among):
            waves.append(Cluster(tuple(sorted(among)), kind))
        else:
            for wave in sorted(among):
                threads[wave].append(Cluster(tuple(row for row in rows if wave_of(row) == wave), kind))
    return Rankings(waves, threads)
