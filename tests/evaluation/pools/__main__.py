"""S3's Tables II and III, run again on seeded pools; where it breaks, how soon it finds, how often it is wrong.

    python -m tests.evaluation.pools                           # Tables II and III
    python -m tests.evaluation.pools --part strengths          # at a half, a fifth, a tenth of the strength
    python -m tests.evaluation.pools --part online             # ticks after the onset
    python -m tests.evaluation.pools --part null               # false findings per pool-day
    python -m tests.evaluation.pools --part live --record NEW  # real pools go wrong; then they are judged
    python -m tests.evaluation.pools --part live --replay OLD  # judges what was recorded

See `../README.md`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.evaluation.pools import null, online, tables
from tests.evaluation.pools.lab import live
from tests.evaluation.pools.lab.recording import record_all
from tests.evaluation.pools.methods import METHODS
from tests.evaluation.pools.simulation import FAULTS, WORLDS

if TYPE_CHECKING:
    from collections.abc import Sequence

SEEDS: Final = {
    "tables": (101, 110),
    "strengths": (101, 110),
    "online": (101, 103),
    "null": (101, 102),
    "live": (11, 11),
}
"""First and last, of those that were kept for the end: constants were chosen on 1 to 99."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.evaluation.pools",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--part", choices=tuple(SEEDS), default="tables")
    parser.add_argument("--seeds", type=int, nargs=2, metavar=("FIRST", "LAST"))
    parser.add_argument("--worlds", nargs="+", choices=WORLDS)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=["published", "adaptive"])
    parser.add_argument("--faults", nargs="+", choices=FAULTS, default=FAULTS, help="of --part online")
    parser.add_argument("--strength", type=float, default=1.0, help="of --part online; 1 as published")
    parser.add_argument("--sizes", type=int, nargs="+", choices=null.SIZES, default=tuple(null.SIZES))
    parser.add_argument("--days", type=float, default=null.DAYS, help="of each pool of --part null")
    parser.add_argument("--workers", type=int, default=1, help="of --part live: so many pools at once")
    folders = parser.add_mutually_exclusive_group()
    folders.add_argument("--record", type=Path, metavar="FOLDER", help="of --part live: what it has already is kept")
    folders.add_argument("--replay", type=Path, metavar="FOLDER", help="of --part live")
    parser.add_argument("--seconds", type=float, default=240.0, help="of each recording of --part live")
    options = parser.parse_args(arguments)
    if (options.part == "live") != bool(options.record or options.replay):
        parser.error("expected --record FOLDER or --replay FOLDER with --part live, and with no other")
    first, last = options.seeds or SEEDS[options.part]
    if last < first:
        parser.error(f"--seeds {first} {last}: expected the first, then the last")
    seeds = range(first, last + 1)
    match options.part:
        case "live":
            if options.record:
                record_all(options.record, seeds, options.seconds, options.workers)
            try:
                print(live.run(options.record or options.replay, options.workers))
            except FileNotFoundError as error:
                parser.error(str(error))
        case "tables":
            print(tables.tables(options.methods, options.worlds or tables.ALIKE, seeds, options.workers))
        case "strengths":
            print(tables.strengths(options.methods, options.worlds or tables.ALIKE[:2], seeds, options.workers))
        case "online":
            print(
                online.run(
                    seeds,
                    worlds=options.worlds or [each for each in WORLDS if each != "recycled"],
                    faults=options.faults,
                    strength=options.strength,
                    workers=options.workers,
                )
            )
        case "null":
            print(
                null.run(
                    seeds,
                    worlds=options.worlds or tuple(WORLDS),
                    sizes=options.sizes,
                    days=options.days,
                    workers=options.workers,
                )
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
