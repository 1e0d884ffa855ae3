"""The pages about Kafka are current, and name everything that the code knows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from deploy.generate.kafka import kafka_page
from laggard.pipeline.core.bus import TopicSpec
from laggard.pipeline.core.bus.kafka.topics import WHY, configs_of
from laggard.pipeline.manifest import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]


def test_the_page_is_current(golden: Callable[[Path, str], None]) -> None:
    golden(ROOT / "deploy/docs/reference/kafka.md", kafka_page())


def test_every_setting_of_a_topic_says_what_it_is_for() -> None:
    given = configs_of(TopicSpec("a", 1, 1.0), 3) | configs_of(TopicSpec("a", compacted=True), 3)
    assert given.keys() - {"retention.ms"} == WHY.keys()


def test_every_setting_that_they_name_is_one() -> None:
    names = {setting.name for setting in SETTINGS}
    by_hand = (ROOT / "deploy/docs/operations/kafka.md").read_text()
    words = {word.strip("`.,;:|()") for word in f"{by_hand}{kafka_page()}".split()}
    named = {word for word in words if word.startswith(("kafka.", "topics.", "bus.")) and not word.endswith(".md")}
    assert named - {"kafka.password="} <= names
    assert {name for name in names if name.startswith("kafka.token")} <= named
