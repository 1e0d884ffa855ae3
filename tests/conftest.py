"""What all tests share: texts that are pinned by a file, and the switch that writes them anew."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.alone import Room
from tests.brokers.fixtures import broker, new_cluster
from tests.brokers.jars import fetch_kafka
from tests.monitoring import servers
from tests.monitoring.fixtures import alertmanager, prometheus

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


# Outermost: to wait for one's turn, or for Kafka to be fetched, is not counted as the test's time.
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    if item.get_closest_marker("slow") is not None:
        fetch_kafka()
    with item.config.stash[_ROOM].entered(alone=item.get_closest_marker("alone") is not None):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        report.sections += servers.logs()
    return report


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Compares a text with the file that pins it."""

    def compare(path: Path, text: str) -> None:
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.read_text(encoding="utf-8") == text, f"{path.name} is not current; pytest --update-golden writes it"

    return compare
