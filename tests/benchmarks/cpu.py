"""What the operator `cpu` costs for a frame, beside `gaussian` on the same frame in the same run.

    python tests/benchmarks/cpu.py [--rows 200] [--rounds 7]

Each scores a frame of the agent's process counters before it learns it, at 1 s ticks. The rounds take turns, so that a
noisy machine disturbs them alike; the median round counts, in CPU time of one core.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import TYPE_CHECKING

import numpy as np

from laggard.operators.cpu import Cpu
from laggard.operators.cpu.measures import CONDITIONS
from laggard.operators.gaussian import Gaussian
from laggard.pipeline.core.records import make_layout
from laggard.producers.host.processes import FEATURES

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

TICKS = 200
CPUS = 8.0


def frames(rows: int, busy: int) -> np.ndarray:
    """Counters of processes, a number of which use nearly all of the CPUs. Shape (ticks, rows, features)."""
    noise = np.random.default_rng(0)
    level = noise.lognormal(0.0, 3.0, (rows, len(FEATURES)))
    series = level * (1.0 + 0.1 * noise.lognormal(0.0, 1.0, (TICKS, rows, len(FEATURES))))
    user, system, throttled = map(FEATURES.index, ("cpu_user_ratio", "cpu_system_ratio", "cpu_quota_throttled_ratio"))
    series[..., user] = noise.uniform(0.0, 0.1, (TICKS, rows))
    series[..., system] = noise.uniform(0.0, 0.1, (TICKS, rows))
    series[..., throttled] = 0.0
    series[..., FEATURES.index("cpus")] = CPUS
    series[:, :busy, user] = 0.95 * CPUS
    return series


def following(operator: Any, series: np.ndarray) -> Callable[[], int]:
    """Feed the first ticks; each call of the returned function feeds all frames again and gives their number."""
    rows = series.shape[1]
    layout = make_layout([f"p[{row}]" for row in range(rows)], ["p"] * rows, FEATURES)
    clock = 1e9

    def work() -> int:
        nonlocal clock
        for values in series:
            clock += 1.0
            operator.score(clock, layout, values)
            operator.learn(clock, layout, values)
        return len(series)

    work()
    return work


def main() -> None:
    """Print a line per operator."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=200)
    options.add_argument("--rounds", type=int, default=7)
    chosen = options.parse_args()
    quiet = frames(chosen.rows, 0)
    operators = {
        "gaussian": following(Gaussian(), quiet),
        "cpu, nothing is high": following(Cpu(), quiet),
        "cpu, one process is": following(Cpu(), frames(chosen.rows, 1)),
        "cpu, all are": following(Cpu(), frames(chosen.rows, chosen.rows)),
        "cpu, all conditions, nothing is high": following(Cpu(conditions=tuple(CONDITIONS)), quiet),
        "cpu, trimmed mean over 5 s": following(Cpu(smoothing="trimmed"), quiet),
    }
    costs: dict[str, list[float]] = {name: [] for name in operators}
    for _ in range(chosen.rounds):
        for name, work in operators.items():
            began = time.process_time()
            ticks = work()
            costs[name].append((time.process_time() - began) / ticks * 1e6)
    usual = statistics.median(costs["gaussian"])
    print(f"{chosen.rows} rows x {len(FEATURES)} features, {chosen.rounds} rounds; us of CPU time a frame")
    for name, found in costs.items():
        middle = statistics.median(found)
        print(f"{name:38} {middle:8.1f}  ({min(found):.1f} to {max(found):.1f}), {middle / usual:6.1%} of gaussian")


if __name__ == "__main__":
    main()
