"""Which buses the contract is tested on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from laggard.pipeline.bus.embedded import EmbeddedBus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from laggard.pipeline.bus import Bus


@pytest.fixture(params=["embedded"])
def attach(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Bus]]:
    """Attaches to one and the same bus, each time like another process would. A further bus is a further parameter."""
    opened: list[Bus] = []

    def embedded() -> Bus:
        opened.append(EmbeddedBus(tmp_path / "bus.db"))
        return opened[-1]

    yield {"embedded": embedded}[request.param]
    for bus in opened:
        bus.close()


@pytest.fixture
def bus(attach: Callable[[], Bus]) -> Bus:
    return attach()
