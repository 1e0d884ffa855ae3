from __future__ import annotations

from typing import TYPE_CHECKING

from laggard.pipeline.core.bus import Outgoing
from laggard.pipeline.core.records import Mark, encode
from tests.pipeline.investigator.serving import served

if TYPE_CHECKING:
    from pathlib import Path


def test_a_mark_is_set_and_told(tmp_path: Path) -> None:
    with served(tmp_path / "bus.db") as page:
        told = page.client.get("/api/v1/cluster").json()
        assert (told["host"], told["hosts"]) == ("web-1", []), "an empty bus has none"
        answer = page.client.post("/api/v1/marks", json={"host": "web-1", "note": "<b>slow</b>"})
        assert answer.status_code == 201
        assert [each["note"] for each in page.client.get("/api/v1/marks").json()["marks"]] == ["<b>slow</b>"]
        (record,) = page.reading.bus.read(page.reading.bus.partition_of("laggard.counters", "web-1"), 0)
        mark = answer.json()["mark"]
        assert record.value == encode(Mark("web-1", mark["ts"], "<b>slow</b>"))


def test_wrong_questions_are_named(tmp_path: Path) -> None:
    with served(tmp_path / "bus.db") as page:
        topic = "laggard.counters"
        page.reading.bus.append([Outgoing(topic, "web-1", encode(Mark("web-1", 1.7e9, "")), 1.7e9)])
        for path, error, expected in [
            ("/marks?hots=web-1", "unknown parameter 'hots'", "host?, since?, most?"),
            ("/marks?most=0", "parameter 'most' is wrong", "Expected `int` >= 1"),
            ("/marks?most=1&most=2", "parameter 'most' is there twice", "each parameter once"),
        ]:
            answer = page.client.get(f"/api/v1{path}")
            assert answer.status_code == 400
            assert answer.json() == {"error": error, "expected": expected}
