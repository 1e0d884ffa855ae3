"""For pytest, in a copy of the tree: which test runs which lines; or a choice of tests, in the order that is wanted.

It is loaded before anything of laggard is imported: lines that run at import belong to no test.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from coverage import Coverage

if TYPE_CHECKING:
    from collections.abc import Generator

_FILE: Final = "file "
"""Begins the name of a context that stands for all tests of a file."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--watch", metavar="PATH", help="write to --told which tests run which lines of this folder")
    parser.addoption("--plan", type=Path, metavar="FILE", help="run its tests only, and tell the first that fails")
    parser.addoption("--told", type=Path, metavar="FILE", help="where to write what was found, in JSON")


def pytest_configure(config: pytest.Config) -> None:
    if watched := config.getoption("--watch"):
        config.pluginmanager.register(_Watch(Path(watched).resolve(), config.getoption("--told")))
    if plan := config.getoption("--plan"):
        config.pluginmanager.register(_Judge(json.loads(plan.read_text()), config.getoption("--told")))


class _Watch:
    """Notes of each test how long it takes, whether it passes, and the lines that it runs."""

    def __init__(self, watched: Path, told: Path) -> None:
        self._told = told
        self._root = Path.cwd().resolve()
        self._tests: dict[str, dict[str, Any]] = {}
        self._coverage = Coverage(data_file=None, include=[f"{watched}/*"])
        self._coverage.start()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._coverage.switch_context(item.nodeid)
        slow = item.get_closest_marker("slow") is not None
        test = self._tests[item.nodeid] = {"seconds": 0.0, "passed": True, "slow": slow}
        begin = time.perf_counter()
        result = yield
        test["seconds"] = time.perf_counter() - begin
        self._coverage.switch_context("")
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
    ) -> Generator[None, object, object]:
        """What several tests share runs once only: any test of the file may be the one that sees what is wrong."""
        item = request._pyfuncitem
        if fixturedef.scope == "function":
            return (yield)
        self._coverage.switch_context(_FILE + item.nodeid.split("::")[0])
        try:
            return (yield)
        finally:
            self._coverage.switch_context(item.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._tests[report.nodeid]["passed"] = False

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        data = self._coverage.get_data()
        numbers = {name: number for number, name in enumerate(self._tests)}
        of_files: dict[str, list[int]] = defaultdict(list)
        for name, number in numbers.items():
            of_files[_FILE + name.split("::")[0]].append(number)
        lines: dict[str, dict[int, list[int]]] = {}
        for file in data.measured_files():
            lines[str(Path(file).relative_to(self._root))] = {
                line: sorted({one for each in names if each for one in of_files.get(each) or [numbers[each]]})
                for line, names in data.contexts_by_lineno(file).items()
            }
        self._told.write_text(json.dumps({"tests": self._tests, "lines": lines}))


class _Judge:
    """Runs the tests of a plan in its order, each with its limit of time, and tells the first that fails."""

    def __init__(self, limits: dict[str, float], told: Path) -> None:
        self._limits = limits
        self._told = told

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Generator[None, None, None]:
        yield
        wanted = {item.nodeid: item for item in items if item.nodeid in self._limits}
        items[:] = [wanted[name] for name in self._limits if name in wanted]
        for item in items:
            item.add_marker(pytest.mark.timeout(self._limits[item.nodeid]), append=False)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._tell(report)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._tell(report)

    def _tell(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if not self._told.exists():
            text = report.longreprtext
            last = next((line for line in text.splitlines() if line.startswith("E ")), text[-200:])
            told = {"test": report.nodeid, "timeout": "Timeout (>" in text, "message": last[1:].strip()[:200]}
            self._told.write_text(json.dumps(told))
