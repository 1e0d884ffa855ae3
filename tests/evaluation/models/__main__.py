"""S2's Tables 4 to 7, run again on the seeded queueing model or on recordings of the lab.

    python -m tests.evaluation.models                      # 12 seeded runs of each scenario
    python -m tests.evaluation.models --lab FOLDER         # recordings that `tests.evaluation.lab` made

See `../README.md`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.evaluation.models.queueing import SCENARIOS, record
from tests.evaluation.models.recorded import read
from tests.evaluation.models.tables import all_tables

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.evaluation.models", description=__doc__)
    parser.add_argument("--seeds", type=int, nargs=2, default=(101, 112), metavar=("FIRST", "LAST"))
    parser.add_argument("--lab", type=Path, metavar="FOLDER", help="with recordings, each beside its FILE.truth.json")
    options = parser.parse_args(arguments)
    if options.lab is None:
        seeds = range(options.seeds[0], options.seeds[1] + 1)
        recordings = {scenario: [record(scenario, seed) for seed in seeds] for scenario in SCENARIOS}
    else:
        found = [read(path) for path in sorted(options.lab.glob("*.jsonl"))] if options.lab.is_dir() else []
        if not found:
            parser.error(
                f"--lab {options.lab}: expected a folder with recordings, FILE.jsonl beside FILE.jsonl.truth.json"
            )
        recordings = {name: [each for scenario, each in found if scenario == name] for name in SCENARIOS}
    print(all_tables(recordings))
    return 0


if __name__ == "__main__":
    sys.exit(main())
