"""What all tests share: texts that are pinned by a file, and the switch that writes them anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


# On a machine that others use too, how long an example took says nothing.
settings.register_profile("laggard", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("laggard")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write pinned texts anew instead of comparing with them"
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Compares a text with the file that pins it."""

    def compare(path: Path, text: str) -> None:
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.read_text(encoding="utf-8") == text, f"{path.name} is not current; pytest --update-golden writes it"

    return compare
