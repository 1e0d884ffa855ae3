"""Record a scenario with real parts.

    python -m tests.evaluation.lab record --scenario cpu --out cpu.jsonl

See `../README.md`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.evaluation.lab.recording import record
from tests.evaluation.lab.scenarios import SCENARIOS

if TYPE_CHECKING:
    from collections.abc import Sequence

SHORTEST_S: Final = 0.5
"""Reading all counters takes a tenth of a second."""
LONGEST_S: Final = 60.0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.evaluation.lab", description=__doc__)
    commands = parser.add_subparsers(required=True)
    recording = commands.add_parser("record", help="let a scenario happen, and write down all that can be counted")
    recording.add_argument("--scenario", choices=SCENARIOS, required=True)
    recording.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="a new file; what is true goes to FILE.truth.json"
    )
    recording.add_argument("--interval", type=float, default=1.0, metavar="SECONDS", help="default: %(default)g")
    recording.add_argument("--seed", type=int, default=1, help="of all that is random (default: %(default)s)")
    options = parser.parse_args(arguments)
    if options.out.exists():
        parser.error(f"--out {options.out}: expected a file that does not exist yet")
    if not SHORTEST_S <= options.interval <= LONGEST_S:
        parser.error(f"--interval {options.interval:g}: expected {SHORTEST_S:g} to {LONGEST_S:g} seconds")
    if not options.out.parent.is_dir():
        parser.error(f"--out {options.out}: expected a folder that exists")
    try:
        return 0 if record(SCENARIOS[options.scenario], options.out, options.interval, options.seed) else 1
    except OSError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
