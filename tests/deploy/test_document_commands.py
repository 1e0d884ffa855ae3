"""The commands in the documents run: those that ask and answer, in the order of each document.

They run on a bus with everything, at its end, see `tests.browser.world`.
"""

from __future__ import annotations

import json
import re
import shutil
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest
import zstandard

from laggard.pipeline.cli import run
from tests.browser.world import ENDS, HOST, shared_world, work_on
from tests.deploy.files import DOCUMENTS, ROOT
from tests.deploy.test_documents import commands
from tests.grafana.scene import APPLICATION, REPLICAS, SERVICE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

GENERATED: Final = {"CHANGELOG.md", "commands.md", "api.md", "settings.md", "records.md", "metrics.md"}

ELSEWHERE: Final = {
    "agent": "tests/kafka/test_agent.py",
    "confirm": "tests/pipeline/confirm/test_confirm.py",
    "diagnose": "tests/pipeline/methods/diagnoses/test_commands.py",
    "doctor": "tests/pipeline/test_doctor.py",
    "grafana": "tests/grafana/test_publish.py",
    "measure": "tests/pipeline/test_measure.py",
    "reset": "tests/pipeline/test_reset.py",
    "serve": "tests/browser/test_live.py",
    "topics": "tests/pipeline/test_topics_command.py",
    "trace": "tests/pipeline/test_trace.py",
    "up": "tests/pipeline/test_up.py",
    "watch": "tests/pipeline/history/test_commands.py",
    "work": "tests/kafka/workers.py",
}
"""Commands that run until they are stopped, or need brokers, a Grafana or a live process; and tests that run them."""


def recorded() -> Iterator[dict[str, Any]]:
    """Yield the lines of a recording: counters, an application, a pool with a leak, requests, and a mark."""
    draw = np.random.default_rng(5)
    for tick in range(200):
        ts = 1_700_000_000.0 + 5.0 * tick
        load = 0.3 + 0.1 * np.sin(tick / 15.0) + 0.02 * draw.normal()
        rows = {f"nginx[{pid}@1]": {"cpu_user_ratio": load / pid, "memory_rss_bytes": 1e8 * pid} for pid in range(1, 4)}
        yield {"ts": ts, "host": HOST, "scope": "process", "rows": rows}
        yield {"ts": ts, "host": HOST, "scope": "host", "rows": {HOST: {"cpu_busy_ratio": load}}}
        yield {"ts": ts + 1.0, "application": APPLICATION, "performance": {"response_time_mean_s": 0.1 + load / 4}}
        held = 1e8 + 2e6 * draw.normal(size=8)
        held[7] += 1e6 * max(0, tick - 100)
        members = {f"worker-{each}": {"cpu_ratio": load, "memory_rss_bytes": held[each]} for each in range(8)}
        yield {"ts": ts, "pool": "workers", "rows": members}
        yield {
            "ts": ts,
            "service": APPLICATION,
            "request": f"r{tick}",
            "duration_s": 0.6,
            "counts": {"RU": 3, "BT": 1},
            "times_s": {"RU": 0.1, "BT": 0.5},
            "syscalls": ["openat", "read", "write"],
        }
    yield {"ts": ts, "host": HOST, "mark": "checkout hangs"}


PLACEHOLDERS: Final = {
    **dict.fromkeys(("TIME", "14:05"), "09:09"),
    **dict.fromkeys(("HOST", "web-1"), HOST),
    **dict.fromkeys(("POOL", "workers"), REPLICAS),
    "APP": APPLICATION,
    "SERVICE": SERVICE,
    "FILE": "shop.jsonl",
}
"""Words of the documents, and their counterparts in the world."""


class Example:
    """The bus and the files for the commands of one document."""

    def __init__(self, folder: Path, world: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._bus = folder / "bus.db"
        shutil.copy(world, self._bus)
        self._capsys = capsys

    def run(self, *words: str, is_code: bool = True) -> str:
        """Run a command as at the end of the world; return what it prints. In a sentence it may lack its arguments."""
        bus = () if words[0] in {"replay", "rules"} or "--file" in words else ("--bus", str(self._bus))
        self._capsys.readouterr()
        code = run([*words, *bus])
        printed = self._capsys.readouterr()
        if is_code or "Missing argument" not in printed.err:
            assert code == 0, f"laggard {' '.join(words)}: {code}: {printed.err}"
        if words[0] == "feedback":
            work_on(self._bus)
        return printed.out

    def filled(self, words: Sequence[str]) -> list[str]:
        """Return a command with names and ids of the world in the place of those of the document."""
        if "--file" in words or words[0] == "replay":
            return ["shop.jsonl" if each == "FILE" else each for each in words]
        filled = []
        for word in words:
            match word, words[:2]:
                case ("ID" | "INCIDENT", ["incidents", *_] | ["feedback", "usual" | "expected"]):
                    filled.append(self._first("incidents", "--json")["id"])
                case "ID", ["feedback", "withdraw"]:
                    filled.append(self._first("feedback", "--json")["id"])
                case _, ["requests", "path"] if word not in words[:2]:
                    filled.append(self._first("requests", SERVICE, "--json")["clusters"][0]["example"])
                case "shop", ["requests", *_]:
                    filled.append(SERVICE)
                case _:
                    filled.append(PLACEHOLDERS.get(word, word))
        return filled

    def _first(self, *words: str) -> dict[str, Any]:
        """Return the first line that a command prints."""
        found: dict[str, Any] = json.loads(self.run(*words).splitlines()[0])
        return found


WITH_COMMANDS = {
    path: found
    for path in DOCUMENTS
    if path.name not in GENERATED and not path.is_relative_to(ROOT / "tests")
    if (
        found := [
            (words, is_code)
            for words, is_code in commands(path)
            # In a sentence, a name alone is a mention.
            if words[0] not in ELSEWHERE and (is_code or len(words) > 1)
        ]
    )
}


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recordings that documents name, and the results of one."""
    folder = tmp_path_factory.mktemp("recordings")
    lines = "".join(f"{json.dumps(line)}\n" for line in recorded())
    for name in ("shop", "load-test", "requests"):
        (folder / f"{name}.jsonl").write_text(lines)
    (folder / "requests.jsonl.zst").write_bytes(zstandard.compress(lines.encode()))
    with (folder / "results.jsonl").open("w") as results, redirect_stdout(results):
        assert run(["replay", str(folder / "shop.jsonl"), "--json"]) == 0
    return folder


@pytest.fixture
def example(
    recordings: Path,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Example:
    """An example in the working directory, at the end of the world."""
    shutil.copytree(recordings, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    for name, value in {"LAGGARD_STATE": str(tmp_path / "state"), "LAGGARD_HOST": HOST, "TZ": "UTC"}.items():
        monkeypatch.setenv(name, value)
    world = shared_world(tmp_path_factory)
    monkeypatch.setattr("time.time", lambda: ENDS)
    return Example(tmp_path, world, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("path", WITH_COMMANDS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_commands_of_a_document_run(path: Path, example: Example) -> None:
    for words, is_code in WITH_COMMANDS[path]:
        example.run(*example.filled(words), is_code=is_code)


def test_commands_that_are_not_run_here_are_run_elsewhere() -> None:
    for name, path in ELSEWHERE.items():
        assert re.search(rf"[\"/ ]{name}\b", (ROOT / path).read_text()), f"{path} does not run `laggard {name}`"
