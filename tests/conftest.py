"""What all tests share: the sizes of a run, the shared servers, and texts pinned by a file."""

from __future__ import annotations

import gc
import os
import re
import signal
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import HealthCheck, settings

from tests import tracefs
from tests.brokers.fixtures import broker, new_cluster
from tests.misbehaving.programs import NotAllowedError
from tests.monitoring import servers
from tests.monitoring.fixtures import alertmanager, prometheus
from tests.programs import MissingPartError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

__all__ = ["alertmanager", "broker", "new_cluster", "prometheus"]

# As laggard is deployed: more threads only wait for each other on matrices as small as these. Before numpy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# How long an example takes says nothing on a shared machine. Every run but the long one tries the same few examples, so
# that a change fails for what it changes.
settings.register_profile(
    "run", max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.register_profile("long", settings.get_profile("run"), derandomize=False, max_examples=1000)
settings.register_profile("quick", settings.get_profile("run"), max_examples=15)
settings.load_profile("run")

# A shell starts what it runs in the background with ^C ignored, and so would be whatever a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


_LEFT_OUT: Final = "part that is missing"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="leave out the tests marked slow")
    parser.addoption("--long", action="store_true", help="run the tests marked long too, with many examples")
    parser.addoption(
        "--update-golden", action="store_true", help="write pinned texts anew instead of comparing with them"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--long"):
        settings.load_profile("long")
        tracefs.mount()
    elif config.getoption("--quick"):
        settings.load_profile("quick")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Spare the garbage collector the modules and tests: all of them stay, and to pass them costs seconds."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


_SLOW = re.compile(r"^pytestmark = (\[\s*)?pytest\.mark\.(slow|long)\b", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """In the quick run, do not even import what is slow all through: it needs browsers, plots, databases."""
    if not config.getoption("--quick"):
        return None
    files = [collection_path] if collection_path.match("test_*.py") else [*collection_path.rglob("test_*.py")]
    return (files and all(_SLOW.search(file.read_text()) for file in files)) or None


_AGAIN_S: Final = 60.0


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> Generator[None, object, object]:
    """A test that is out of time is told again and again: what ends it may wait for what does not end."""
    done = yield
    left_s, _ = signal.getitimer(signal.ITIMER_REAL)
    signal.setitimer(signal.ITIMER_REAL, left_s, min(settings.timeout, _AGAIN_S))
    return done


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what this size of run has not. Files with slow tests come first, and quick ones fill the end.

    Slow ones are taken from both ends of the alphabet in turn: neighbors load the same parts of the machine, and would
    starve each other while others only wait.
    """
    left_out = {"slow", "long"} if config.getoption("--quick") else set() if config.getoption("--long") else {"long"}
    kept: list[pytest.Item] = []
    deselected: list[pytest.Item] = []
    for item in items:
        (deselected if any(item.get_closest_marker(name) for name in left_out) else kept).append(item)
    config.hook.pytest_deselected(items=deselected)
    slow = sorted({item.path for item in kept if item.get_closest_marker("slow")})
    turns = {path: min(place, len(slow) - 1 - place) for place, path in enumerate(slow)}
    items[:] = sorted(kept, key=lambda item: turns.get(item.path, len(slow)))


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
def disk() -> Iterator[Path]:
    """A folder on a disk: that of `tmp_path` may be in memory."""
    with tempfile.TemporaryDirectory(prefix="laggard-tests-", dir="/var/tmp") as folder:
        yield Path(folder)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Compares a text with the file that pins it."""

    def compare(path: Path, text: str) -> None:
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.read_text(encoding="utf-8") == text, f"{path.name} is not current; pytest --update-golden writes it"

    return compare
