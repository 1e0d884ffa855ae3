"""S0's Tables 1 and 2 again, on slowdowns that are injected into running processes of this machine.

    python -m tests.evaluation.slowdowns --cases 64
    python -m tests.evaluation.slowdowns --replay DIR...

See `README.md` for what is done and what the columns mean.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from laggard.pipeline.settings import SettingError, parse_assignment
from tests.evaluation.planning import SITUATIONS, Setting
from tests.evaluation.recording import read_cases, read_frames, thinned
from tests.evaluation.scoring import ABLATIONS, ablated, evaluate, methods
from tests.evaluation.staging import record
from tests.evaluation.tables import ablation, tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.evaluation.scoring import Outcome


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.evaluation.slowdowns", description=__doc__)
    parser.add_argument("--record", type=Path, metavar="DIR", help="keep the recording in this new folder")
    parser.add_argument("--replay", type=Path, metavar="DIR", nargs="+", help="score recordings instead of making one")
    usual = Setting()
    for name, value, text in (
        ("--cases", usual.cases, "slowdowns to inject"),
        ("--workers", usual.workers, "processes at work"),
        ("--warm-up", usual.warm_up_s, "seconds before the first slowdown"),
        ("--pause", usual.pause_s, "seconds between two, on average"),
        ("--seed", usual.seed, "of all that is random"),
    ):
        parser.add_argument(name, type=type(value), default=value, help=f"{text} (default: {value:g})")
    parser.add_argument(
        "--situations", nargs="+", choices=SITUATIONS, default=SITUATIONS, help="to inject them in (default: all)"
    )
    parser.add_argument(
        "--thin", type=int, default=1, metavar="N", help="score as if the agent had ticked every N seconds (default: 1)"
    )
    parser.add_argument(
        "--set",
        type=parse_assignment,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of laggard, such as gaussian.context=1h; may be given several times",
    )
    parser.add_argument(
        "--without", nargs="+", choices=ABLATIONS, default=[], help="what to switch off in the operator of laggard"
    )
    parser.add_argument(
        "--ablate", action="store_true", help="compare the operator with itself, each improvement switched off in turn"
    )
    options = parser.parse_args(arguments)
    if options.ablate and options.without:
        parser.error("expected one of --ablate and --without")
    if options.record and options.record.exists():
        parser.error(f"--record {options.record}: expected a folder that does not exist yet")
    compared = ablated(options.set) if options.ablate else methods(options.set, options.without)
    outcomes: dict[str, list[Outcome]] = {name: [] for name in compared}
    with tempfile.TemporaryDirectory(prefix="laggard-") as temporary:
        folders = options.replay or [options.record or Path(temporary) / "cases"]
        try:
            for make in compared.values():
                make()  # settings that cannot be used are told before an hour is spent on recording
            if not options.replay:
                situations = tuple(options.situations)
                record(
                    folders[0],
                    Setting(options.seed, options.cases, situations, options.workers, options.warm_up, options.pause),
                )
        except (SettingError, ValueError) as error:
            parser.error(str(error))
        for folder in folders:
            frames = thinned(read_frames(folder, "process"), options.thin)
            for name, found in evaluate(frames, read_cases(folder), compared).items():
                outcomes[name] += found
    print(ablation(outcomes) if options.ablate else tables(outcomes))


if __name__ == "__main__":
    main()
