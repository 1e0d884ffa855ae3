"""`laggard replay` on recorded requests: which are outliers as they come, and as published at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from laggard.pipeline.cli.exits import FAILED, USAGE
from laggard.pipeline.core.records import write_line
from tests.pipeline.methods.requests.stages import LOCK, T0, calm, locked, normal, reading

if TYPE_CHECKING:
    from laggard.pipeline.core.records import Request
    from tests.pipeline.conftest import Replaying


SMALL = ("--set", "requests.eps=50ms", "--set", "requests.minimum_points=5", "--set", "requests.reference=300")
PUBLISHED = (*SMALL, "--set", "requests.method=published")


def recorded() -> list[Request]:
    """Calm, then every second request waits for a lock, then calm; once a disk is slow."""
    requests = [*calm(0, 120), *calm(120, 150), *(locked(120.5 + at) for at in range(30)), *calm(150, 600, 0.5)]
    return sorted([*requests, reading(60, "disk")], key=lambda each: each.ts + each.duration_s)


def test_outliers_are_told_as_they_come_and_too_many_are_an_incident(replay: Replaying) -> None:
    requests = recorded()
    told, err = replay.json(map(write_line, requests), "--scores", *SMALL)
    outlying = [each for each in told if each["kind"] == "request"]
    assert outlying[0]["request"] == "disk"
    assert {each["cluster"] for each in outlying} == {"disk reads", "lock x.lock"}
    assert len(outlying) > 5
    assert all(LOCK in each["cause"] for each in outlying[1:])
    assert not any(each["live"] for each in outlying)
    (anomaly,) = [each for each in told if each["kind"] == "anomaly"]
    assert (anomaly["service"], anomaly["operator"], anomaly["scope"]) == ("shop", "requests", "request")
    assert anomaly["ts"] == T0 + 130.0
    (ended,) = [each for each in told if each["kind"] == "progress" and each["change"] == "ended"]
    assert ended["id"] == anomaly["id"]
    incidents = [each for each in told if each["kind"] == "incident"]
    assert [each["change"] for each in incidents] == ["opened", "closed"]
    scores = [each for each in told if each["kind"] == "score"]
    assert [each["request"] for each in scores] == [each.request for each in requests]
    assert {(each["operator"], each["service"]) for each in scores} == {("requests", "shop")}
    above = {each["request"] for each in scores if each["score"] is not None and each["score"] > 1.0}
    assert above == {each["request"] for each in outlying}
    assert f"Replayed {len(requests):,} requests of 1 key over 10 min, {len(outlying)} outlying, 0 marks" in err
    assert " requests/s)" in err


def test_as_published_each_outlier_is_told_once_at_the_end(replay: Replaying) -> None:
    requests = [locked(0, "first"), *recorded()[:1000]]
    told, _ = replay.json(map(write_line, requests), *PUBLISHED)
    assert [each["kind"] for each in told] == ["request"] * 2
    assert {each["request"] for each in told} == {"first", "disk"}


def test_other_lines_go_on_beside_requests(replay: Replaying) -> None:
    frame = '{"ts": 1700000001.0, "host": "web-1", "rows": {"nginx[7]": {"cpu_user_ratio": 0.12}}}'
    line = '{"ts": 1700000000.0, "service": "wordpress", "request": "r1", "duration_s": 0.122, "counts": {"RS": 200}}'
    told, err = replay.json([frame, line])
    assert told == []
    assert "Replayed 1 frame and 1 request of 2 keys over 1 s, 0 outlying" in err
    assert " records/s)" in err


def test_what_is_late_is_named_with_its_line(replay: Replaying) -> None:
    _, err = replay.json(map(write_line, [normal(9000), normal(0)]), code=FAILED)
    assert f"recorded.jsonl:2: late: expected a time of at least {T0 + 5400.0!r}, got {T0!r}" in err


def test_without_the_operator_there_is_none_of_it(replay: Replaying) -> None:
    told, err = replay.json(map(write_line, calm(0, 2)), "--operators", "gaussian")
    assert told == []
    assert "20 records that no operator reads" in err


def test_a_person_reads_which_request_was_slow_and_why(replay: Replaying) -> None:
    out, _ = replay.text(map(write_line, [*calm(0, 120), locked(120, "r7", name="GET /cart")]), *SMALL)
    (line,) = out.splitlines()
    assert "  shop  " in line
    assert "  r7 GET /cart, 600 ms: waits for a lock held by `worker` (pid 812)" in line


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("--set", "requests.eps=25"), ""),
        (("--set", "requests.eps=soon"), 'requests.eps is "soon"; expected auto, or a duration above 0 such as 25ms'),
        (("--set", "requests.eps=0ms"), 'requests.eps is "0ms"; expected auto, or a duration above 0 such as 25ms'),
        (
            ("--set", "requests.minimum_points=1000", "--set", "requests.reference=500"),
            "--set: requests.minimum_points is 1000: expected at most requests.reference, 500",
        ),
    ],
)
def test_settings_that_are_none_are_named(flags: tuple[str, ...], told: str, replay: Replaying) -> None:
    _, err = replay.text([write_line(normal(0))], *flags, code=USAGE if told else 0)
    assert told in err
