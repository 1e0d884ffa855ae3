"""The brokers that tests ask for."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Protocol

import pytest

from tests.brokers.cluster import Cluster
from tests.brokers.keeper import keep, kept
from tests.shared import run_process, shared

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.brokers.security import Security


class NewCluster(Protocol):
    """Starts a cluster that is the test's own and is stopped after it."""

    def __call__(
        self,
        brokers: int = 1,
        *,
        properties: Mapping[str, str] | None = None,
        security: Security | None = None,
        start: bool = True,
    ) -> Cluster: ...


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """One broker that all processes of the run share: use topics and groups of your own."""
    return kept(shared(tmp_path_factory, "broker", lambda folder: keep(folder, run_process())))


@pytest.fixture
def new_cluster(tmp_path: Path) -> Iterator[NewCluster]:
    """Starts clusters that are the test's own."""
    with ExitStack() as stack:
        count = 0

        def new(
            brokers: int = 1,
            *,
            properties: Mapping[str, str] | None = None,
            security: Security | None = None,
            start: bool = True,
        ) -> Cluster:
            nonlocal count
            count += 1
            cluster = Cluster(tmp_path / f"cluster-{count}", brokers, properties=properties, security=security)
            stack.callback(cluster.end)
            if start:
                cluster.start()
            return cluster

        yield new
