"""Does any input make laggard fail, hang or take too much memory? `python -m tests.fuzz TARGET --seconds 3600` tries.

    python -m tests.fuzz                          each target for a minute
    python -m tests.fuzz ctf otlp --seconds 3600  some of them for longer

Inputs are mutations of real bytes, guided by the code that they reach where atheris is installed (x86-64), else random.
The corpus stays in `.venv/fuzz`. A finding is an input that raises another error than the one meant for it, or takes
more CPU time or memory than its target allows. It is saved in `tests/fuzz/crashes`, where a test replays it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

from tests.fuzz.running import CURRENT, ROOT, saved, scratch
from tests.fuzz.targets import TARGETS


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}; all by default")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each target")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if unknown := set(options.targets) - set(TARGETS):
        parser.error(f"expected targets of {', '.join(TARGETS)}, got {min(unknown)}")
    failed = [name for name in options.targets or TARGETS if not _is_clean(name, options.seconds, options.seed)]
    if failed:
        print(f"findings: {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


def _is_clean(name: str, seconds: float, seed: int) -> bool:
    """Try one target in a process of its own, for what ends a process is a finding, too."""
    with scratch() as folder:
        (folder / "files").mkdir()
        command = [sys.executable, "-m", "tests.fuzz.running", name, str(folder / "files"), str(seconds), str(seed)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as child:
            assert child.stdout is not None
            last = ""
            for line in child.stdout:
                if not line.startswith(("INFO: ", "WARNING: ")):
                    print(f"{name}: {line}" if line.startswith("executions") else line, end="", flush=True)
                    last = line
        current = folder / "files" / CURRENT
        if child.returncode and current.is_file():
            print(f"{name}: the process ended with {child.returncode}; saved as {saved(name, current.read_bytes())}")
        return child.returncode == 0 and last.endswith("findings: 0\n")


if __name__ == "__main__":
    sys.exit(main())
