"""A bus for reports of incidents."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.topics import Topics

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[EmbeddedBus]:
    with EmbeddedBus(tmp_path / "laggard.db") as bus:
        bus.create(Topics().specs())
        yield bus
