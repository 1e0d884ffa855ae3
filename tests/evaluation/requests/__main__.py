"""S4's tables and figures, from the recording that its authors published.

    python -m tests.evaluation.requests --data FOLDER                    # tables III, IV and V; a mismatch is an error
    python -m tests.evaluation.requests --data FOLDER --figures NEW      # and figures 3, 4 and 6 as PNG files
    python -m tests.evaluation.requests --data FOLDER --part costs       # table VI: seconds and memory of each step
    python -m tests.evaluation.requests --data FOLDER --part costs --sklearn   # with scikit-learn's DBSCAN: 10 GB
    python -m tests.evaluation.requests --data FOLDER --part others      # outliers found by other means
    python -m tests.evaluation.requests --data FOLDER --part eps         # rules that estimate eps, how steady they are
    python -m tests.evaluation.requests --data FOLDER --part online      # the operator, as the requests come: minutes

FOLDER holds the four files that `published_data.py` describes; by default it is `LAGGARD_DATA`. See `../README.md`.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.evaluation.requests import published, published_costs, published_eps, published_online
from tests.evaluation.requests.published_data import read

if TYPE_CHECKING:
    from collections.abc import Sequence

PARTS: Final = ("published", "costs", "others", "eps", "online")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.evaluation.requests",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--part", choices=PARTS, default="published")
    parser.add_argument("--data", type=Path, metavar="FOLDER", default=os.environ.get("LAGGARD_DATA"))
    parser.add_argument("--figures", type=Path, metavar="FOLDER", help="of --part published: where to draw them")
    parser.add_argument("--sklearn", action="store_true", help="of --part costs: its DBSCAN too")
    parser.add_argument("--rounds", type=int, default=published_costs.ROUNDS, help="of --part costs")
    options = parser.parse_args(arguments)
    if options.data is None:
        parser.error("expected --data FOLDER, or LAGGARD_DATA")
    try:
        recording = read(Path(options.data))
    except (OSError, ValueError) as error:
        parser.error(str(error))
    if options.part == "eps":
        print(published_eps.table(recording))
        return 0
    found = published.outcome(recording)
    match options.part:
        case "costs":
            costs = published_costs.table(
                options.data, recording, found, sklearn=options.sklearn, rounds=options.rounds
            )
            print(costs)
        case "others":
            print(published.alternatives(recording, found))
        case "online":
            print(published_online.table(recording, found.published.clusters))
        case "published":
            cells = published.cells(recording, found)
            print(published.tables(cells))
            print()
            print(published.reading(found))
            if options.figures:
                # Here, since matplotlib takes a second to load.
                from tests.evaluation.requests.published_figures import draw  # noqa: PLC0415

                print(*draw(recording, found, options.figures), sep="\n")
            return 0 if all(each.same for each in cells) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
