"""From a setting to a bus."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from laggard.pipeline.core.bus import BusError
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.bus.kafka.bus import KafkaBus
from laggard.pipeline.core.bus.kafka.options import KafkaOptions
from laggard.pipeline.core.bus.opening import open_bus

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("prefix", ["", "embedded:"])
def test_a_path_is_an_embedded_bus(tmp_path: Path, prefix: str) -> None:
    path = tmp_path / "a folder" / "bus.db"
    with open_bus(f"{prefix}{path}") as bus:
        assert isinstance(bus, EmbeddedBus)
        assert bus.path == path
    assert path.exists()


def test_a_home_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with open_bus("embedded:~/bus.db"):
        assert (tmp_path / "bus.db").exists()


def test_links_in_a_loop_are_no_bus(tmp_path: Path) -> None:
    path = tmp_path / "bus.db"
    path.symlink_to(tmp_path / "other")
    (tmp_path / "other").symlink_to(path)
    with pytest.raises(BusError, match=r"bus\.db: expected a file that this user may write: .*symbolic links"):
        open_bus(path)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("kafka://", "kafka://HOST:PORT"),
        ("kafka://user:secret@broker:9092", "kafka.username"),
        ("redis://x", "embedded:PATH"),
        ("", "names no bus"),
        ("embedded:", "names no bus"),
    ],
)
def test_other_names_say_what_was_expected(name: str, expected: str) -> None:
    with pytest.raises(BusError, match=expected) as raised:
        open_bus(name)
    assert "secret" not in str(raised.value)


def test_brokers_are_a_kafka_bus_and_opening_it_connects_nowhere() -> None:
    with open_bus("kafka://nowhere.invalid,b2:9093", kafka=KafkaOptions(prefix="p.")) as bus:
        assert isinstance(bus, KafkaBus)
        assert bus.options == KafkaOptions(bootstrap=("nowhere.invalid:9092", "b2:9093"), prefix="p.")
