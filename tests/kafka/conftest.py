"""Clusters that several tests of faults share."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Protocol

import pytest

from tests.brokers import Cluster
from tests.kafka.scene import Scene

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class NewScene(Protocol):
    """Makes a scene under a prefix of its own, which is ended after the test."""

    def __call__(self, cluster: Cluster, *, partitions: int = 3, **settings: object) -> Scene: ...


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers; a test that takes one away brings it back."""
    with Cluster(tmp_path_factory.mktemp("three") / "cluster", 3) as cluster:
        yield cluster


@pytest.fixture
def new_scene(tmp_path: Path) -> Iterator[NewScene]:
    scenes: list[Scene] = []

    def new(cluster: Cluster, *, partitions: int = 3, **settings: object) -> Scene:
        told = {name.replace("__", "."): value for name, value in settings.items()}
        prefix = f"t{uuid.uuid4().hex[:8]}."
        scenes.append(Scene(tmp_path / prefix, cluster, prefix, partitions=partitions, settings=told))
        return scenes[-1]

    yield new
    for scene in scenes:
        scene.end()
