"""Commands, called where nothing of the machine takes part."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from laggard.pipeline.cli import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    Called = Callable[..., tuple[int, str, str]]


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to run in, in which the machine's own configuration and state take no part."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LAGGARD_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("LAGGARD_HOST", "web-1")
    return tmp_path


@pytest.fixture
def laggard(nowhere: Path, capsys: pytest.CaptureFixture[str]) -> Called:
    """Calls a command there: its exit code, and what it prints."""

    def called(*words: str) -> tuple[int, str, str]:
        code = run(words)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return called


class Replaying:
    """`laggard replay` of lines in a file there, `recorded.jsonl`: what it tells, and what it says of itself."""

    def __init__(self, folder: Path, called: Called) -> None:
        self._path, self._called = folder / "recorded.jsonl", called

    def text(self, lines: Iterable[str | dict[str, Any]], *flags: str, code: int = 0) -> tuple[str, str]:
        texts = (each if isinstance(each, str) else json.dumps(each) for each in lines)
        self._path.write_text("".join(f"{each}\n" for each in texts))
        ended, out, err = self._called("replay", self._path.name, *flags)
        assert ended == code, err
        return out, err

    def json(
        self, lines: Iterable[str | dict[str, Any]], *flags: str, code: int = 0
    ) -> tuple[list[dict[str, Any]], str]:
        out, err = self.text(lines, "--json", *flags, code=code)
        return [json.loads(line) for line in out.splitlines()], err


@pytest.fixture
def replay(nowhere: Path, laggard: Called) -> Replaying:
    return Replaying(nowhere, laggard)
