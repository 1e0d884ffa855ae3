"""Counters scored and learned per second by the operator `river`, beside `gaussian` on the same frames.

    python tests/benchmarks/river_operator.py [--rows 200] [--features 30] [--ticks 6]

Detectors of river's are Python objects that are asked row by row, or counter by counter: expect tens to thousands of
times fewer counters a second than `gaussian` takes. CPU time of one core; the first ticks, which build what there is to
build, do not count.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from laggard.operators.gaussian import Gaussian
from laggard.operators.river import River
from laggard.operators.river.blueprint import usable
from laggard.pipeline.core.records import make_layout

if TYPE_CHECKING:
    from collections.abc import Callable

INTERVAL_S = 5.0
WARMING = 14

ENGINES: dict[str, Callable[[], Any]] = {
    "gaussian": Gaussian,
    **{name: partial(River, detector=name) for name in usable()},
}


def main() -> None:
    """Print a line per detector."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=200)
    options.add_argument("--features", type=int, default=30)
    options.add_argument("--ticks", type=int, default=6)
    options.add_argument("--engines", nargs="*", default=list(ENGINES))
    chosen = options.parse_args()
    shape = (chosen.rows, chosen.features)
    noise = np.random.default_rng(0)
    level = noise.lognormal(0.0, 3.0, shape)
    names = [f"f{each}" for each in range(chosen.features)]
    layout = make_layout([f"p[{row}]" for row in range(chosen.rows)], ["p"] * chosen.rows, names)
    print(f"{chosen.rows} rows x {chosen.features} features; counters a second and core, milliseconds a tick")
    for name in chosen.engines:
        operator = ENGINES[name]()
        frames = [level * (1.0 + 0.1 * noise.lognormal(0.0, 1.0, shape)) for _ in range(WARMING + chosen.ticks)]
        began, ticks = 0.0, chosen.ticks * (200 if name == "gaussian" else 1)
        for tick in range(WARMING + ticks):
            if tick == WARMING:
                began = time.process_time()
            values = frames[tick % len(frames)]
            operator.score(INTERVAL_S * tick, layout, values)
            operator.learn(INTERVAL_S * tick, layout, values)
        took = (time.process_time() - began) / ticks
        print(f"{name:28} {level.size / took:14,.0f}  {1e3 * took:10.2f} ms")


if __name__ == "__main__":
    main()
