"""`laggard grafana` on a stand-in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from laggard.pipeline.cli import run
from tests.grafana.stand_in import TOKEN, VERSIONS, StandIn, running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(params=VERSIONS)
def grafana(request: pytest.FixtureRequest) -> Iterator[StandIn]:
    with running(request.param) as stand_in:
        yield stand_in


@pytest.fixture
def newest() -> Iterator[StandIn]:
    """One version, where the others are no different."""
    with running("12.1") as stand_in:
        yield stand_in


@pytest.fixture
def call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Runs `laggard grafana` on a stand-in: its exit code, and what it prints."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LAGGARD_GRAFANA_TOKEN", TOKEN)

    def call(stand_in: StandIn, *arguments: str) -> tuple[int, str, str]:
        code = run(["grafana", *arguments, "--set", f"grafana.url={stand_in.url}"])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call
