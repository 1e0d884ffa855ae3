"""Each target on real bytes, on a few mutations of them, and on all findings; and the bounds themselves."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.fuzz.running import CRASHES, ROOT, FindingError, Tried, at_random, attempt, mutated, scratch
from tests.fuzz.targets import MIB, TARGETS, Target

if TYPE_CHECKING:
    from pathlib import Path

MUTATIONS = 60


@pytest.mark.parametrize("name", TARGETS)
def test_real_bytes_and_mutations_of_them(name: str) -> None:
    target, rng = TARGETS[name], random.Random(1)
    seeds = list(target.seeds())
    assert seeds
    with scratch() as folder:
        for data in [*seeds, *(mutated(rng, seeds, target.words) for _ in range(MUTATIONS))]:
            attempt(target, data, folder)


@pytest.mark.parametrize("path", sorted(CRASHES.glob("*/*")), ids=lambda path: f"{path.parent.name}-{path.name}")
def test_what_was_found_once(path: Path) -> None:
    with scratch() as folder:
        attempt(TARGETS[path.parent.name], path.read_bytes(), folder)


def hold(data: bytes, folder: Path) -> None:
    bytearray(64 * MIB)[::4096] = b"x" * (64 * MIB // 4096)


def spin(data: bytes, folder: Path) -> None:
    while True:
        pass


def fail(data: bytes, folder: Path) -> None:
    if data[:1] == b"\xff":
        raise KeyError(data)


def seeds() -> list[bytes]:
    return [b"abc", b"\xff"]


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (Target(fail, seeds), r"KeyError in tests/fuzz/test_fuzz\.py:fail"),
        (Target(spin, seeds, most_s=0.2), r"too slow in tests/fuzz/test_fuzz\.py:spin"),
    ],
    ids=["fails", "spins"],
)
def test_a_finding_is_named_by_its_place(target: Target, said: str, tmp_path: Path) -> None:
    with pytest.raises(FindingError, match=said):
        attempt(target, b"\xff", tmp_path)


def test_what_takes_too_much_memory_is_found() -> None:
    """In a process of its own: the most that one ever had is what is measured."""
    script = (
        "import pathlib, sys; from tests.fuzz.running import attempt; from tests.fuzz.targets import Target; "
        "from tests.fuzz.test_fuzz import hold, seeds; "
        "attempt(Target(hold, seeds, most_bytes=16 << 20), b'', pathlib.Path(sys.argv[1]))"
    )
    with scratch() as folder:
        ended = subprocess.run(
            [sys.executable, "-c", script, str(folder)], cwd=ROOT, capture_output=True, text=True, check=False
        )
    assert "FindingError: too much memory" in ended.stderr


def test_each_kind_of_finding_is_kept_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fuzz.running.CRASHES", tmp_path / "crashes")
    (tmp_path / "files").mkdir()
    tried = Tried("made", Target(fail, seeds), tmp_path / "files")
    for data in (b"a", b"\xff1", b"\xff2", b"b"):
        tried(data)
    assert tried.count == 4
    (kept,) = tried.found.values()
    assert kept.read_bytes() == b"\xff1"
    assert list((tmp_path / "crashes").rglob("*")) == [kept.parent, kept]


def test_without_atheris_inputs_are_random(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fuzz.running.CRASHES", tmp_path / "crashes")
    (tmp_path / "files").mkdir()
    given: set[bytes] = set()
    target = Target(lambda data, folder: given.add(data), seeds)
    tried = Tried("made", target, tmp_path / "files")
    while len(given) < 50:
        at_random(tried, target, seconds=0.1, seed=tried.count)
    assert {b"abc", b"\xff"} < given
    assert tried.found == {}


@pytest.mark.slow
def test_the_command_counts_what_it_tried() -> None:
    command = [sys.executable, "-m", "tests.fuzz", "prometheus", "--seconds", "1"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert re.fullmatch(r"prometheus: executions: [1-9][\d,]*; findings: 0\n", ended.stdout)
