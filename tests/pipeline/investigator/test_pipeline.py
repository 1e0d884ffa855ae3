"""The API's answers about the pipeline itself."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest

from laggard.pipeline.core.bus import Outgoing, Partition
from laggard.pipeline.core.topics import ANOMALIES, COUNTERS, DEAD_LETTERS, TOPICS, Topics
from laggard.pipeline.investigator.api.pipeline import Rates
from laggard.pipeline.provisioning import wanted_topics
from laggard.pipeline.settings.general import BusSettings, TopicsSettings
from tests.monitoring.worker import running_worker
from tests.pipeline.investigator.behind import FRAMES, HOST, JUNK, OPERATORS, WAITING, begin, begun, work
from tests.pipeline.investigator.behind import TOPICS as NAMES
from tests.pipeline.investigator.serving import Served, get, served
from tests.pipeline.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.brokers import Cluster


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Served]:
    begun(tmp_path / "bus.db")
    with served(tmp_path / "bus.db", state=str(tmp_path), operators=OPERATORS) as page:
        yield page


def send(page: Served, **fields: Any) -> tuple[int, Any]:
    answer = page.client.post("/api/v1/pipeline/replays", json=fields)
    return answer.status_code, answer.json()


def test_tasks_tell_what_is_done_and_what_waits(page: Served) -> None:
    told = get(page, "/pipeline")
    tasks = {each["operator"]: each for each in told["tasks"]}
    assert tasks.keys() == {"gaussian", "cpu", "incidents"}
    for operator in ("gaussian", "cpu"):
        task = tasks[operator]
        assert (task["topic"], task["partition"]) == ("laggard.counters", 0)
        assert (task["position"], task["end"]) == (FRAMES + 2, FRAMES + 2 + WAITING)
        assert task["lag_records"] == WAITING
        assert task["lag_s"] >= 0.0
        assert task["missed_records"] == 0
        # By the records' own times: all that was processed is of the last minute but the late one, which is behind.
        assert task["records_per_s"] > 0.0
        assert (task["member"], task["recovery_left_records"], task["standby_left_records"]) == ("", None, None)
        # When the worker ended it saved what it knew.
        assert task["snapshot_behind_records"] == 0
        assert task["snapshot_ts"] is not None
    assert tasks["incidents"]["lag_records"] == 0
    assert told["worker"] is None


def test_throughput_is_what_was_processed_while_somebody_looked() -> None:
    rates, cpu, late = Rates(), ("cpu", Partition("laggard.counters", 0)), ("late", Partition("laggard.counters", 0))
    assert rates.update(1000.0, {cpu: 50}) == {}
    assert rates.update(1004.0, {cpu: 54}) == {}  # too short to tell
    assert rates.update(1010.0, {cpu: 70, late: 5}) == {cpu: 2.0}
    assert rates.update(1050.0, {cpu: 70, late: 85})[cpu] == 20 / 50
    # Of the last minute: at 1004 there were 54.
    assert rates.update(1064.0, {cpu: 84}) == {cpu: 0.5}
    assert rates.update(1066.0, {cpu: 0}) == {cpu: 0.0}  # it was reset
    assert rates.update(9000.0, {cpu: 10}) == {}  # the last look was long ago


def test_topics_are_told_with_what_is_in_them(page: Served) -> None:
    topics = {each["name"]: each for each in get(page, "/pipeline/topics")["topics"]}
    assert topics.keys() == {NAMES.name(each) for each in TOPICS}
    counters = topics["laggard.counters"]
    (partition,) = page.reading.bus.partitions("laggard.counters")
    records = list(page.reading.bus.read(partition, 0))
    assert counters["records"] == len(records)
    assert counters["bytes"] == pytest.approx(sum(len(each.value) for each in records), rel=0.1)
    assert (counters["oldest_ts"], counters["newest_ts"]) == (records[0].ts, records[-1].ts)
    assert counters["retention_s"] == page.reading.settings[BusSettings].retention
    assert topics["laggard.dead_letters"]["retention_s"] == DEAD_LETTERS.retention_s
    assert [each["differences"] for each in topics.values()] == [[]] * len(topics)


def test_cost_is_that_of_laggards_own_processes(page: Served) -> None:
    told = get(page, "/pipeline/cost")
    assert told["host"] == HOST
    assert [(each["name"], each["part"]) for each in told["parts"]] == [
        ("laggard-agent", "agent"), ("laggard-reader", "agent"), ("laggard-worker", "work"),
    ]  # fmt: skip
    factor = 1.0 + 0.01 * ((FRAMES + WAITING) % 7)
    assert told["parts"][0]["cpu_ratio"] == pytest.approx(0.03 * factor)
    assert told["parts"][2]["memory_rss_bytes"] == pytest.approx(9e7 * factor)


def test_dead_letters_are_listed_and_decoded(page: Served) -> None:
    told = get(page, "/pipeline/letters")
    assert told["there"] == 3  # one of the two operators tells what none can read, both what is late
    junk = [each for each in told["letters"] if each["bytes"] == len(JUNK)]
    late = [each for each in told["letters"] if each not in junk]
    assert [each["operator"] for each in junk] == ["gaussian"]
    assert {each["operator"] for each in late} == {"gaussian", "cpu"}
    assert {each["place"] for each in junk} == {f"laggard.counters[0]@{FRAMES + 1}"}
    assert len(get(page, "/pipeline/letters", most=1)["letters"]) == 1
    whole = get(page, "/pipeline/letter", partition=0, offset=junk[0]["offset"])
    assert whole["letter"] == junk[0]
    assert whole["headers"] == [{"name": "sent-by", "value": "<b>somebody</b>"}]
    assert "MessagePack" in whole["wrong"]
    assert (whole["decoded"], whole["text"]) == ("", "junk \ufffd<script>alert(1)</script>")
    assert whole["hex"].startswith("00000000  6a 75 6e 6b 20 ff ")
    assert (whole["replayable"], whole["replayed_ts"], whole["returned"]) == ("", None, None)
    frame = get(page, "/pipeline/letter", offset=late[0]["offset"])
    assert frame["letter"]["reason"].split(": ")[1] == "late"
    assert '"kind": "frame"' in frame["decoded"]
    assert frame["wrong"] == ""


def test_a_record_is_sent_again_once_and_comes_back_where_it_is_still_wrong(page: Served) -> None:
    (letter,) = (each for each in get(page, "/pipeline/letters")["letters"] if each["bytes"] == len(JUNK))
    bus, (partition,) = page.reading.bus, page.reading.bus.partitions("laggard.counters")
    end = bus.bounds(partition)[1]
    status, told = send(page, partition=0, offset=letter["offset"])
    assert (status, told["topic"], told["key"]) == (201, "laggard.counters", HOST)
    (record,) = bus.read(partition, end)
    assert (record.key, record.value, record.ts) == (HOST, JUNK, letter["ts"])
    assert dict(record.headers) == {"sent-by": b"<b>somebody</b>", "laggard-replay": letter["place"].encode()}
    # Nor by another page that remembers.
    refused = {"error": "the letter was sent again already", "expected": "a letter that was not"}
    assert send(page, offset=letter["offset"]) == (409, refused)
    whole = get(page, "/pipeline/letter", offset=letter["offset"])
    assert whole["replayed_ts"] == told["ts"]
    assert whole["returned"] is None
    work(bus)
    back = get(page, "/pipeline/letter", offset=letter["offset"])["returned"]
    assert (back["operator"], back["place"]) == ("gaussian", f"laggard.counters[0]@{end}")
    assert back["replay_of"] == letter["place"]


def test_what_cannot_be_sent_again_says_why(page: Served) -> None:
    bus = page.reading.bus
    headers = {
        "other": (("laggard-topic", NAMES.name(ANOMALIES).encode()),),
        "cut": (("laggard-topic", NAMES.name(COUNTERS).encode()), ("laggard-bytes", b"9000000")),
        "nothing": (("laggard-topic", NAMES.name(COUNTERS).encode()),),
    }
    (partition,) = bus.partitions(NAMES.name(DEAD_LETTERS))
    first = bus.bounds(partition)[1]
    for name, told in headers.items():
        bus.append([Outgoing(partition.topic, HOST, b"" if name == "nothing" else b"x", 1.0, told)])
    before = bus.all_bounds(bus.partitions(NAMES.name(COUNTERS)))
    for offset, reason in enumerate(
        ("it is not of a topic that producers write to", "only its beginning was kept", "nothing of it could be read"),
        first,
    ):
        assert get(page, "/pipeline/letter", offset=offset)["replayable"] == reason
        assert send(page, offset=offset) == (
            409, {"error": f"the letter cannot be sent again: {reason}", "expected": "another letter"},
        )  # fmt: skip
    for offset, where in ((99, 0), (0, 7)):
        status, told = send(page, offset=offset, partition=where)
        assert (status, told["error"]) == (404, f"there is no dead letter {offset} in partition {where}")
    assert bus.all_bounds(bus.partitions(NAMES.name(COUNTERS))) == before


def test_an_empty_bus_has_tasks_and_no_cost(tmp_path: Path) -> None:
    with served(tmp_path / "bus.db", state=str(tmp_path), operators=OPERATORS) as page:
        told = get(page, "/pipeline")
        assert {each["lag_records"] for each in told["tasks"]} == {0}
        assert {each["snapshot_behind_records"] for each in told["tasks"]} == {None}
        assert get(page, "/pipeline/letters") == {"there": 0, "letters": []}
        assert page.client.get("/api/v1/pipeline/cost").status_code == 404


@pytest.mark.slow
def test_a_worker_here_tells_what_only_it_knows(tmp_path: Path) -> None:
    begun(tmp_path / "bus.db")
    with (
        running_worker(tmp_path / "bus.db", operators=OPERATORS) as (_, process),
        served(tmp_path / "bus.db", state=str(tmp_path), operators=OPERATORS) as page,
    ):
        # It may answer before it has all partitions.
        until(lambda: all(each["member"] for each in get(page, "/pipeline")["tasks"]))
        told = get(page, "/pipeline")
        assert (told["worker"]["pid"], told["worker"]["answers"]) == (process.pid, True)
        assert {each["member"] for each in told["tasks"]} == {f"process {process.pid} here"}
        assert {each["recovery_left_records"] for each in told["tasks"]} == {0}


@pytest.mark.slow
def test_on_kafka_it_is_told_alike(tmp_path: Path, broker: Cluster) -> None:
    topics = Topics(f"{uuid.uuid4().hex}.")
    location = f"kafka://{broker.bootstrap}"
    with served(
        tmp_path / "none", state=str(tmp_path), operators=OPERATORS, bus_location=location, topics_prefix=topics.prefix
    ) as page:
        bus = page.reading.bus
        bus.create([each.spec for each in wanted_topics(page.reading.settings, kafka=True)])
        begin(bus, topics)
        told = get(page, "/pipeline")
        tasks = {each["operator"]: each for each in told["tasks"] if each["position"]}
        for operator in OPERATORS.split(","):
            assert tasks[operator]["lag_records"] == WAITING
            assert tasks[operator]["snapshot_behind_records"] == 0
        counters = next(each for each in get(page, "/pipeline/topics")["topics"] if each["name"].endswith(".counters"))
        assert counters["partitions"] == page.reading.settings[TopicsSettings].partitions
        letters = get(page, "/pipeline/letters")
        assert letters["there"] == 3
        letter = next(each for each in letters["letters"] if each["bytes"] == len(JUNK))
        place = {"partition": letter["partition"], "offset": letter["offset"]}
        assert send(page, **place)[0] == 201
        assert send(page, **place)[0] == 409
        work(bus, topics)
        assert get(page, "/pipeline/letter", **place)["returned"]["replay_of"] == letter["place"]
