"""Programs that go wrong in front of a real agent: what it says they were doing, and what that costs.

`README.md` says what happens and what came of it.
"""

from __future__ import annotations

import argparse
import signal
import sys
from typing import TYPE_CHECKING, Final

from tests.evaluation import bad_cases, costs, dips, troubles

if TYPE_CHECKING:
    from collections.abc import Sequence

PARTS: Final = ("programs", "dips", "cost", "bad")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.evaluation.diagnoses", description=__doc__)
    parser.add_argument("--part", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--only", nargs="+", choices=troubles.NAMES, default=troubles.NAMES, help="of the programs")
    parser.add_argument("--runs", type=int, default=5, help="of each program")
    parser.add_argument("--scale", type=float, default=1.0, help="of the figure with two dips, which takes 3 minutes")
    parser.add_argument("--pairs", type=int, default=6, help="of each method, with and without diagnosis")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each half of a pair")
    parser.add_argument("--seed", type=int, default=1, help="of the order in pairs")
    parser.add_argument(
        "--set", nargs="+", default=(), metavar="NAME=VALUE", help="of the agent, such as cpu.threshold=70%%"
    )
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # so that what was started is cleared away
    settings = {name.replace(".", "_", 1): value for name, _, value in (each.partition("=") for each in given.set)}
    if "programs" in given.part:
        print(troubles.run_all(given.only, given.runs, settings), flush=True)
    if "dips" in given.part:
        print(dips.told(dips.run(given.scale, dips.DIP_S, settings)), flush=True)
    if "cost" in given.part:
        print(costs.measured(given.pairs, given.seconds, given.seed), flush=True)
    if "bad" in given.part:
        print(bad_cases.told(), flush=True)


if __name__ == "__main__":
    main()
