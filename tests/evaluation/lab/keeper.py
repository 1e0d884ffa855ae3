"""Gives back what the lab took from the machine, when the lab has ended, however it ended.

    python -m tests.evaluation.lab.keeper

It reads on its standard input, one JSON list a line, what is going to be taken: `["group", PATH]`, `["namespace",
NAME]`, `["loop", FILE]` by the file behind it, `["mount", PATH]`, `["folder", PATH]`. At the end of the input it undoes
them: processes first, then what these used, the last one taken first. Its caller dies with the other end of that
pipe, so this holds for a killed one, too.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.programs import path_of

ORDER: Final = ("group", "mount", "loop", "namespace", "folder")
PATIENCE_S: Final = 20.0


class Keeper:
    """The process that gives back, seen from the lab."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.evaluation.lab.keeper"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, start_new_session=True)

    def will_take(self, kind: str, what: object) -> None:
        """Say it before it is done."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([kind, str(what)]) + "\n")
        self._process.stdin.flush()

    def close(self) -> None:
        """Give everything back. Raises OSError where something was left."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        if self._process.wait():
            raise OSError("the lab could not give back everything that it took: see above")


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    taken = [json.loads(line) for line in sys.stdin][::-1]
    taken.sort(key=lambda each: ORDER.index(each[0]))
    left = [each for each in taken if not _undone(*each)]
    for kind, what in left:
        print(f"left behind: {kind} {what}", file=sys.stderr)
    return bool(left)


def _undone(kind: str, what: str) -> bool:
    """Whether it is away, after as many tries as there is patience for."""
    deadline = time.monotonic() + PATIENCE_S
    while _is_there(kind, what):
        if time.monotonic() > deadline:
            return False
        _undo(kind, what)
        if _is_there(kind, what):
            time.sleep(0.1)
    return True


def _is_there(kind: str, what: str) -> bool:
    match kind:
        case "namespace":
            return Path("/run/netns", what).exists()
        case "loop":
            return bool(_loops(what))
        case "mount":
            return Path(what).is_mount()
    return Path(what).exists()


def _undo(kind: str, what: str) -> None:
    match kind:
        case "group":
            with suppress(OSError):
                (Path(what) / "cgroup.kill").write_text("1")
            for path in sorted(Path(what).rglob("*/"), reverse=True):
                with suppress(OSError):
                    path.rmdir()
            with suppress(OSError):
                Path(what).rmdir()
        case "folder":
            shutil.rmtree(what, ignore_errors=True)
        case "loop":
            for device in _loops(what):
                subprocess.run(["losetup", "--detach", device], check=False, capture_output=True)
        case _:
            command = {"namespace": [path_of("ip"), "netns", "delete"], "mount": ["umount"]}
            subprocess.run([*command[kind], what], check=False, capture_output=True)


def _loops(file: str) -> list[str]:
    """The loop devices that a file is behind."""
    asked = ["losetup", "--associated", file, "--noheadings", "--output", "NAME"]
    return subprocess.run(asked, check=False, capture_output=True, text=True).stdout.split()


if __name__ == "__main__":
    sys.exit(main())
