"""The corpus is deterministic and complete."""

from __future__ import annotations

import filecmp
import math
import re
from typing import TYPE_CHECKING, Final

import pytest

from laggard.pipeline.core.topics import TOPICS
from laggard.pipeline.investigator.app import ENDPOINTS
from tests.corpus.__main__ import write

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

MEASURED: Final = {"/pipeline", "/pipeline/cost"}
"""Answers of the API that tell how long something took."""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus") / "first"
    write(folder)
    return folder


def names(folder: Path) -> list[str]:
    return sorted(str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file())


def digests(path: Path) -> list[list[str]]:
    """Of the snapshots of each key: their sizes and digests."""
    lines = [line.rsplit(" ", 4) for line in path.read_text().splitlines()]
    return [[key, size, digest] for key, _, _, size, digest in lines]


def test_it_is_the_same_when_it_is_made_again_without_a_restart(written: Path, tmp_path: Path) -> None:
    write(tmp_path / "again", restarted_at=math.inf)
    assert names(written) == names(tmp_path / "again")
    _, differ, missing = filecmp.cmpfiles(written, tmp_path / "again", names(written), shallow=False)
    # Counters begin anew with the worker; and equal snapshots may stand at other offsets.
    assert missing == []
    for name in set(differ) - {"metrics.txt"}:
        assert name.startswith("snapshots/")
        assert digests(written / name) == digests(tmp_path / "again" / name)


def test_every_topic_and_every_answer_is_in_it(written: Path) -> None:
    found = {each.name.rpartition("-")[0]: each.stat().st_size for each in (written / "topics").iterdir()}
    assert sorted(found) == sorted(f"laggard.{topic.name}" for topic in TOPICS)
    assert all(found.values())
    answers = [each.read_text().splitlines()[:2] for each in (written / "api").iterdir()]
    answered = {re.split(r"[ ?]", asked)[1] for asked, status in answers if status == "200"}
    assert {each.path for each in ENDPOINTS if each.method == "GET"} - MEASURED <= answered
    metrics = (written / "metrics.txt").read_text()
    assert metrics.count("# TYPE") > 60
