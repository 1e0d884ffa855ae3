"""S4's tables and figures, from the recording that its authors published; live, with real servers; what tracing costs.

    python -m tests.evaluation.requests --data FOLDER                    # tables III, IV and V; a mismatch is an error
    python -m tests.evaluation.requests --data FOLDER --figures NEW      # and figures 3, 4 and 6 as PNG files
    python -m tests.evaluation.requests --data FOLDER --part costs       # table VI: seconds and memory of each step
    python -m tests.evaluation.requests --data FOLDER --part costs --sklearn   # with scikit-learn's DBSCAN: 10 GB
    python -m tests.evaluation.requests --data FOLDER --part others      # outliers found by other means
    python -m tests.evaluation.requests --data FOLDER --part eps         # rules that estimate eps, how steady they are
    python -m tests.evaluation.requests --data FOLDER --part online      # the operator, as the requests come: minutes
    python -m tests.evaluation.requests --part lab --record NEW          # real requests go wrong; then they are judged
    python -m tests.evaluation.requests --part lab --replay OLD          # judges what was recorded
    python -m tests.evaluation.requests --part tracing                   # requests a second with tracing and without

FOLDER holds the four files that `published_data.py` describes; by default it is `LAGGARD_DATA`. See `../README.md`.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.evaluation.requests import published, published_costs, published_eps, published_online, tracing_costs
from tests.evaluation.requests.lab import judging
from tests.evaluation.requests.lab.recording import SECONDS
from tests.evaluation.requests.lab.servers import need
from tests.evaluation.requests.lab.sites import need_wordpress
from tests.evaluation.requests.lab.troubles import OURS, TROUBLES, WORDPRESS
from tests.evaluation.requests.published_data import read
from tests.programs import MissingPartError

if TYPE_CHECKING:
    from collections.abc import Sequence

PARTS: Final = ("published", "costs", "others", "eps", "online", "lab", "tracing")
SEED: Final = 3
"""Of the lab: what was chosen, was chosen on 1 and 2."""


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
    parser.add_argument("--rounds", type=int, help="of --part costs and --part tracing")
    folders = parser.add_mutually_exclusive_group()
    folders.add_argument("--record", type=Path, metavar="FOLDER", help="of --part lab: what it has already is kept")
    folders.add_argument("--replay", type=Path, metavar="FOLDER", help="of --part lab")
    parser.add_argument(
        "--troubles",
        nargs="+",
        choices=TROUBLES,
        metavar="TROUBLE",
        default=list(OURS),
        help=f"of --part lab: {', '.join(TROUBLES)}",
    )
    parser.add_argument("--wordpress", action="store_true", help="of --part lab: all troubles of WordPress instead")
    parser.add_argument("--seeds", type=int, nargs="+", default=[SEED], help="of --part lab: a recording for each")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each recording of --part lab")
    parser.add_argument("--servers", nargs="+", choices=tracing_costs.CASES, default=list(tracing_costs.CASES))
    options = parser.parse_args(arguments)
    if options.wordpress:
        options.troubles = list(WORDPRESS)
    if (options.part == "lab") != bool(options.record or options.replay):
        parser.error("expected --record FOLDER or --replay FOLDER with --part lab, and with no other")
    if options.part in {"lab", "tracing"}:
        return _live(parser, options)
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
                options.data,
                recording,
                found,
                sklearn=options.sklearn,
                rounds=options.rounds or published_costs.ROUNDS or published_costs.ROUNDS,
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


def _live(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    """The parts with real servers."""
    if not options.replay:
        try:
            need()
            if WORDPRESS.keys() & options.troubles:
                need_wordpress()
        except MissingPartError as error:
            parser.error(str(error))
    if options.part == "tracing":
        print(tracing_costs.run(options.servers, options.rounds or tracing_costs.ROUNDS))
        return 0
    seconds = options.seconds if options.record else 0.0
    try:
        print(judging.run(options.record or options.replay, options.troubles, options.seeds, seconds=seconds))
    except FileNotFoundError as error:
        parser.error(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())
