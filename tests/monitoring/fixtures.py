"""The servers that tests ask for."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from tests.monitoring.servers import running_alertmanager, running_prometheus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path


class NewServer(Protocol):
    """Starts a server that is the test's own and is stopped after it; gives its base URL."""

    def __call__(
        self, config: Mapping[str, Any], files: Mapping[str, str] | None = None, flags: Sequence[str] = ()
    ) -> str: ...


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[NewServer]:
    """Starts Prometheus with a configuration; see `running_prometheus`, which a fixture of a module can use as well."""
    with _starting(running_prometheus, tmp_path, "prometheus") as new:
        yield new


@pytest.fixture
def alertmanager(tmp_path: Path) -> Iterator[NewServer]:
    """Starts Alertmanager with a configuration; see `running_alertmanager`."""
    with _starting(running_alertmanager, tmp_path, "alertmanager") as new:
        yield new


@contextmanager
def _starting(running: Callable[..., AbstractContextManager[str]], folder: Path, name: str) -> Iterator[NewServer]:
    with ExitStack() as stack:
        count = 0

        def new(config: Mapping[str, Any], files: Mapping[str, str] | None = None, flags: Sequence[str] = ()) -> str:
            nonlocal count
            count += 1
            return stack.enter_context(running(folder / f"{name}-{count}", config, files, flags))

        yield new
