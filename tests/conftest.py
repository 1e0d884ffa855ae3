"""What all tests share: texts that are pinned by a file, and the switch that writes them anew."""

from __future__ import annotations

import os
import signal
from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import HealthCheck, settings

from tests.alone import Room
from tests.brokers.fixtures import broker, new_cluster
from tests.misbehaving.programs import NotAllowedError
from tests.monitoring import servers
from tests.monitoring.fixtures import alertmanager, prometheus
from tests.programs import MissingPartError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

__all__ = ["alertmanager", "broker", "new_cluster", "prometheus"]

# On a machine that others use too, how long an example took says nothing. Every run tries the same examples, so that a
# change fails for what it changes; `--hypothesis-profile=search` tries others.
settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("laggard", settings.get_profile("search"), derandomize=True)
settings.load_profile("laggard")

# A shell starts what it runs in the background with ^C ignored, and so would be whatever a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


_ROOM = pytest.StashKey[Room]()
_LEFT_OUT: Final = "part that is missing"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write pinned texts anew instead of comparing with them"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_ROOM] = room = Room()
    config.add_cleanup(room.close)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The files that keep others waiting come first, then those that take long; what is quick fills the end."""
    ranks: dict[Path, int] = {}
    for item in items:
        marked = [item.get_closest_marker(name) is not None for name in ("alone", "slow")]
        ranks[item.path] = min(ranks.get(item.path, 2), marked.index(True) if any(marked) else 2)
    items.sort(key=lambda item: ranks[item.path])


# Outermost: to wait for one's turn is not counted as the test's time.
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    with item.config.stash[_ROOM].entered(alone=item.get_closest_marker("alone") is not None):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    error = call.excinfo.value if call.excinfo else None
    if isinstance(error, MissingPartError):
        if os.environ.get("CI") != "true":
            _skip(report, item, f"{error.part} is missing")
            report.user_properties.append((_LEFT_OUT, (error.part, error.brings)))
    elif isinstance(error, NotAllowedError):
        _skip(report, item, str(error))
    if report.failed:
        report.sections += servers.logs()
    return report


def _skip(report: pytest.TestReport, item: pytest.Item, why: str) -> None:
    report.outcome = "skipped"
    report.longrepr = (str(item.path), (item.location[1] or 0) + 1, f"Skipped: {why}")


def pytest_unconfigure(config: pytest.Config) -> None:
    """The last lines say what was left out."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:  # this is one of several that run tests, not the one that tells
        return
    skipped = reporter.stats.get("skipped", [])
    parts = Counter(tuple(value) for report in skipped for name, value in report.user_properties if name == _LEFT_OUT)
    for (part, brings), tests in sorted(parts.items()):
        reporter.write_line(f"left out: {tests} tests that need {part}, which `{brings}` brings")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Compares a text with the file that pins it."""

    def compare(path: Path, text: str) -> None:
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.read_text(encoding="utf-8") == text, f"{path.name} is not current; pytest --update-golden writes it"

    return compare
