"""Private copies of the tree, in which tests run: the checkout is never touched."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import cache_from_source
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tests.mutation.mutants import Mutant

_INSTALLED: Final = ("deploy", "operators", "pipeline", "producers")
_NOT_COPIED: Final = (".*", "__pycache__", "*.egg-info", "build", "dist", "node_modules")
_WHERE: Final = "import laggard.operators.contract as it; print(it.__file__)"
_ENDED_WITH_TESTS: Final = (0, 1, 5)


class CannotWorkError(Exception):
    """Nothing can be judged; the message says why."""


@dataclass(frozen=True, slots=True)
class Suite:
    """The tests of a room.

    Attributes:
        seconds: how long each takes that passes without any mutant.
        slow: which of them have more than seconds to do.
        failing: those that fail already; they judge nothing.
        lines: of each file, the tests that run a line of it.

    """

    seconds: dict[str, float]
    slow: frozenset[str]
    failing: list[str]
    lines: dict[str, dict[int, frozenset[str]]]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the tests say of a mutant.

    Attributes:
        killed: whether one of them failed.
        timeout: whether it failed because it did not end.
        by: which.
        message: the first line of what it said.
        tried: how many were to run, if none had failed.
        left_out: how many more could see it, but would take too long.

    """

    killed: bool
    timeout: bool = False
    by: str = ""
    message: str = ""
    tried: int = 0
    left_out: int = 0


@dataclass
class Tree:
    """One copy."""

    root: Path
    _runs: int = field(default=0, init=False)

    @classmethod
    def copied(cls, checkout: Path, root: Path) -> Tree:
        """Copy the checkout, and see that this is what is imported.

        Raises:
            CannotWorkError: something else is.

        """
        shutil.copytree(checkout, root, symlinks=True, ignore=shutil.ignore_patterns(*_NOT_COPIED))
        (root / "laggard").mkdir()
        for room in _INSTALLED:
            (root / "laggard" / room).symlink_to(f"../{room}")
        (root / "tmp").mkdir()
        tree = cls(root)
        # What tests start may have another working folder, or another environment.
        for folder, environment in ((root / "tmp", tree._environment()), (root, {})):
            command = [sys.executable, "-c", _WHERE]
            done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
            if not Path(done.stdout.strip()).is_relative_to(root):
                raise CannotWorkError(f"expected modules from {root}, got {done.stdout or done.stderr}")
        return tree

    def _environment(self) -> dict[str, str]:
        # Without compiled modules each of the processes that tests start would compile all of laggard anew.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment.update(PYTHONPATH=str(self.root), TMPDIR=str(self.root / "tmp"), COVERAGE_CORE="ctrace")
        return environment

    def watched(self, room: str, folder: str) -> Suite:
        """Run all tests of a folder without any mutant, and note which lines of the room each one runs.

        Raises:
            CannotWorkError: they do not run at all, or nothing of the room does.

        """
        ended, said, told = self._pytest([folder, "--watch", room], limit_s=None)
        if ended not in _ENDED_WITH_TESTS or not told or not told["lines"]:
            raise CannotWorkError(f"the tests of {room} do not run without any mutant:\n{said[-4000:]}")
        names = list(told["tests"])
        lines = {
            file: {int(line): frozenset(names[number] for number in tests) for line, tests in by_line.items()}
            for file, by_line in told["lines"].items()
        }
        good = {name: test for name, test in told["tests"].items() if test["passed"]}
        seconds = {name: test["seconds"] for name, test in good.items()}
        slow = frozenset(name for name, test in good.items() if test["slow"])
        return Suite(seconds, slow, [name for name in names if name not in good], lines)

    def judged(self, mutant: Mutant, limits: Mapping[str, float], left_out: int) -> Verdict:
        """Run these tests on a mutant until one fails; `limits` has them in their order, with their seconds."""
        if not limits:
            return Verdict(killed=False, left_out=left_out)
        plan = self.root / "tmp" / "plan.json"
        plan.write_text(json.dumps(limits))
        files = list(dict.fromkeys(name.partition("::")[0] for name in limits))
        with self._changed(mutant):
            ended, said, told = self._pytest([*files, "-x", "--plan", str(plan)], limit_s=60.0 + sum(limits.values()))
        tried = len(limits)
        if ended is None:
            return Verdict(killed=True, timeout=True, message="none of them ended", tried=tried, left_out=left_out)
        if told:
            return Verdict(True, told["timeout"], told["test"], told["message"], tried, left_out)
        return Verdict(
            killed=ended != 0,
            by="" if ended == 0 else "pytest itself",
            message="" if ended == 0 else said.strip().splitlines()[-1][:200],
            tried=tried,
            left_out=left_out,
        )

    @contextmanager
    def _changed(self, mutant: Mutant) -> Iterator[None]:
        path = self.root / mutant.file
        source = path.read_bytes()
        # A change within a second that keeps the size is not seen by Python.
        compiled = Path(cache_from_source(str(path)))
        compiled.unlink(missing_ok=True)
        path.write_bytes(mutant.applied(source))
        try:
            yield
        finally:
            path.write_bytes(source)
            compiled.unlink(missing_ok=True)

    def _pytest(self, arguments: Sequence[str], limit_s: float | None) -> tuple[int | None, str, dict[str, Any]]:
        """How it ended, what it said, and what the plugin told; it may take no longer than the limit."""
        self._runs += 1
        told = self.root / "tmp" / f"told-{self._runs}.json"
        output = self.root / "tmp" / f"output-{self._runs}.txt"
        plugins = ["-p", "tests.mutation.plugin", "-p", "no:cacheprovider"]
        shown = ["-q", "--tb", "short", "-o", "tmp_path_retention_policy=none"]
        command = [sys.executable, "-m", "pytest", *plugins, *shown, "--told", str(told), *arguments]
        with (
            output.open("w") as stream,
            subprocess.Popen(
                command,
                cwd=self.root,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                start_new_session=True,
            ) as run,
        ):
            try:
                ended = run.wait(limit_s)
            except subprocess.TimeoutExpired:
                ended = None
            finally:
                # What a test has left behind would slow down all others.
                with suppress(ProcessLookupError):
                    os.killpg(run.pid, signal.SIGKILL)
        said = output.read_text(errors="replace")
        return ended, said, json.loads(told.read_text()) if told.exists() else {}
