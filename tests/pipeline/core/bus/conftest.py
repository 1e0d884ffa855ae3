"""Which buses the contract is tested on."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.bus.kafka.bus import KafkaBus
from tests.pipeline.core.bus.kafka_buses import CLIENTS, kafka_options, prepare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from laggard.pipeline.core.bus import Bus


@pytest.fixture(params=["embedded", *(pytest.param(client, marks=pytest.mark.slow) for client in CLIENTS)])
def attach(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Bus]]:
    """Attaches to one and the same bus, each time like another process would. A further bus is a further parameter."""
    with ExitStack() as opened:
        if request.param == "embedded":
            yield lambda: opened.enter_context(EmbeddedBus(tmp_path / "bus.db"))
        else:
            options = kafka_options(request.getfixturevalue("broker"), request.param)
            prepare(options)
            yield lambda: opened.enter_context(KafkaBus(options))


@pytest.fixture
def bus(attach: Callable[[], Bus]) -> Bus:
    return attach()
