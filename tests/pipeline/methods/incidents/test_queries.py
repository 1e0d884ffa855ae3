"""Incidents out of the topic: the last record of each, within bounds; and `laggard incidents`, which shows them."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laggard.pipeline.alarms.text import ended_sentence, incident_sentence
from laggard.pipeline.cli import run
from laggard.pipeline.cli.exits import NO_DATA, USAGE
from laggard.pipeline.core.bus import Outgoing
from laggard.pipeline.core.bus.kafka.bus import KafkaBus
from laggard.pipeline.core.bus.kafka.options import KafkaOptions
from laggard.pipeline.core.claims import Claim
from laggard.pipeline.core.engine.publishing import outgoing, outgoing_diagnosis
from laggard.pipeline.core.records import Frame, Request, encode, make_layout
from laggard.pipeline.core.records.diagnosis import Location, Phase, Stack
from laggard.pipeline.core.records.outputs import Blame, read_output
from laggard.pipeline.core.topics import ANOMALIES, APPLICATIONS, COUNTERS, DIAGNOSES, POOLS, REQUESTS, Topics
from laggard.pipeline.history.rebuilding import LATELY
from laggard.pipeline.methods.incidents import queries as module
from laggard.pipeline.methods.incidents.queries import REACH_S, IncidentFields, folded, lasted_s, past_incidents
from tests.pipeline.methods.diagnoses.conftest import diagnosis, thread
from tests.pipeline.methods.incidents.joined import NGINX, closed, incident, notice

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from laggard.pipeline.core.bus import Bus
    from laggard.pipeline.core.bus.embedded import EmbeddedBus
    from laggard.pipeline.core.records.frame import KeyedBy
    from laggard.pipeline.core.records.outputs import Incident
    from laggard.pipeline.core.topics import Topic
    from tests.brokers import Cluster

    Called = Callable[..., tuple[int, str, str]]

NOW = 1_795_300_000.0
DAY_S = 86_400.0
TOPICS = Topics()
TOPIC = TOPICS.name(ANOMALIES)


def append(bus: Bus, *incidents: Incident, topics: Topics = TOPICS) -> None:
    bus.append([outgoing(one, topics) for one in incidents])


def asked(bus: Bus, since: float = NOW - DAY_S, **more: str) -> list[tuple[str, int]]:
    """Ids and numbers of what is found."""
    return [(one.id, one.number) for one in past_incidents(bus, TOPICS, since, **more).incidents]


TELLINGS = st.builds(
    IncidentFields,
    st.sampled_from("abcd"),
    st.integers(1, 5),
    st.sampled_from([1.0, 2.0, 3.0]),
    st.sampled_from([4.0, math.inf]),
    st.booleans(),
    st.binary(max_size=2),
)


@given(st.lists(TELLINGS, max_size=20, unique_by=lambda telling: (telling.id, telling.number)), st.randoms())
def test_the_last_record_of_each_counts_in_whatever_order_they_come(
    tellings: list[IncidentFields], shuffled: random.Random
) -> None:
    found = folded(tellings)
    assert {one.id for one in found} == {one.id for one in tellings}
    for one in found:
        assert one.number == max(each.number for each in tellings if each.id == one.id)
    assert [-one.opened_ts for one in found] == sorted(-one.opened_ts for one in found)
    again = tellings.copy()
    shuffled.shuffle(again)
    assert folded(again) == found
    assert folded(found) == found, "so that partitions can be folded one by one"


def test_what_is_read_is_what_was_written(bus: EmbeddedBus) -> None:
    told = [incident(1, NOW - 500), incident(2, NOW - 400), incident(1, NOW - 500, "extended", nth=2, ts=NOW - 300)]
    append(bus, *told)
    past = past_incidents(bus, TOPICS, NOW - DAY_S)
    assert list(past.incidents) == [told[1], told[2]]
    assert math.isnan(past.begins_ts)


def test_those_that_were_open_at_the_time_asked_about_or_after_it(bus: EmbeddedBus) -> None:
    append(
        bus,
        incident(1, NOW - 3 * DAY_S),  # goes on
        incident(2, NOW - 2 * DAY_S),
        closed(2, NOW - 2 * DAY_S, NOW - 1.1 * DAY_S),
        incident(3, NOW - 1.2 * DAY_S),
        closed(3, NOW - 1.2 * DAY_S, NOW - 0.9 * DAY_S),
        incident(4, NOW - 60, live=False),
    )
    assert asked(bus) == [(closed(3, 0.0, 0.0).id, 2), (incident(1, 0.0).id, 1)]
    assert len(asked(bus, NOW - 2 * DAY_S)) == 3


def test_what_opened_long_before_is_found_as_far_as_is_read(bus: EmbeddedBus) -> None:
    append(bus, *(incident(number, NOW - DAY_S - REACH_S + 60 * number) for number in (-1, 1, 2)))
    past = past_incidents(bus, TOPICS, NOW - DAY_S)
    assert [one.id for one in past.incidents] == [incident(number, 0.0).id for number in (2, 1)]
    assert past.begins_ts == NOW - DAY_S - REACH_S + 60
    assert len(past_incidents(bus, TOPICS, -math.inf).incidents) == 3


def test_of_a_large_topic_the_newest_records_are_read(bus: EmbeddedBus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_RECORDS", 10)
    append(bus, *(incident(number, NOW - 1000 + number) for number in range(30)))
    past = past_incidents(bus, TOPICS, NOW - DAY_S)
    assert [one.opened_ts for one in past.incidents] == [NOW - 1000 + number for number in range(29, 19, -1)]
    assert past.begins_ts == NOW - 980
    assert len(past_incidents(bus, TOPICS, -math.inf).incidents) == 10


def test_a_host_s_and_an_id_s(bus: EmbeddedBus) -> None:
    append(bus, incident(1, NOW, host="web-1"), incident(2, NOW, host="web-2"), incident(3, NOW, live=False))
    assert asked(bus, key="web-2") == [(incident(2, 0.0, host="web-2").id, 1)]
    assert asked(bus, key="web-3") == []
    whole = incident(3, 0.0).id
    assert asked(bus, -math.inf, identity=whole[:6]) == [(whole, 1)], "also of a replay"
    assert asked(bus, -math.inf, identity="nothing") == []


def test_records_of_other_tools_are_skipped(bus: EmbeddedBus) -> None:
    good = outgoing(incident(1, NOW), TOPICS)
    found = json.loads(good.value)
    odd = [
        b"\xff junk",
        b"[]",
        b'"incident"',
        b"{}",
        json.dumps(found | {"id": 7}).encode(),
        json.dumps(found | {"id": "x", "evidence": 3}).encode(),
        json.dumps(found | {"id": "y", "number": "1"}).encode(),
    ]
    bus.append([*(replace(good, value=value) for value in odd), replace(good, headers=()), good])
    assert asked(bus) == [(incident(1, 0.0).id, 1)]


def test_how_long_it_lasted() -> None:
    assert lasted_s(incident(1, NOW - 60), NOW) == 60.0
    assert lasted_s(incident(1, NOW + 60), NOW) == 0.0, "by the clock of a host that is ahead"
    assert lasted_s(closed(1, NOW - 500, NOW - 400), NOW) == 100.0


@pytest.mark.slow
def test_on_kafka(broker: Cluster) -> None:
    topics = Topics("past-incidents.")
    options = KafkaOptions((broker.bootstrap,), prefix=topics.prefix, client="kafka-python")
    with KafkaBus(options) as bus:
        bus.create(topics.specs([ANOMALIES], partitions=4))
        now = time.time()
        append(bus, incident(0, now - 20 * DAY_S, host="web-0"), topics=topics)
        opened = [incident(number, now - number, host=f"web-{number}") for number in range(20)]
        append(bus, *opened, closed(3, now - 3, now - 2, host="web-3"), topics=topics)
        past = past_incidents(bus, topics, now - DAY_S)
        assert [one.key for one in past.incidents] == [f"web-{number}" for number in range(20)]
        assert [one.key for one in past.incidents if one.change == "closed"] == ["web-3"]
        assert past.begins_ts >= now - 20, "what is twenty days old was not read"
        (one,) = past_incidents(bus, topics, now - DAY_S, key="web-7").incidents
        assert one == opened[7]


# The command.


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Called:
    """Runs `laggard incidents` on the bus of the test: exit code, output and errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LAGGARD_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("LAGGARD_HOST", "web-1")
    monkeypatch.setenv("LAGGARD_BUS_LOCATION", str(tmp_path / "laggard.db"))
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()

    def call(*arguments: str) -> tuple[int, str, str]:
        code = run(["incidents", *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def two(bus: EmbeddedBus) -> tuple[Incident, Incident]:
    """One that was, and one that is."""
    now = time.time()
    before = closed(1, now - 7200, now - 6600, host="db-1")
    still = incident(
        2,
        now - 720,
        "extended",
        nth=3,
        ts=now - 60,
        score=12.345,
        operators=("gaussian", "cpu"),
        sentence="It\x1b[2J is",
    )
    append(bus, incident(1, now - 7200, host="db-1"), before, incident(2, now - 720), still)
    return before, still


def test_a_line_for_each_with_its_sentence(bus: EmbeddedBus, call: Called) -> None:
    before, still = two(bus)
    code, out, err = call()
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split() == ["id", "host", "began", "lasted", "score", "seen", "by"]
    began = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(still.opened_ts))
    assert lines[1] == f"open    {still.id[:8]}  web-1  {began}  12 min   12.3  cpu, gaussian"
    assert lines[2] == "        It\\x1b[2J is"
    assert lines[3].split() == [
        "closed",
        before.id[:8],
        "db-1",
        *lines[3].split()[3:5],
        "10",
        "min",
        "2.50",
        "gaussian",
    ]
    assert lines[-1] == f"Next: `laggard incidents {still.id[:8]}` for the records of each operator"


def test_programs_get_the_records_of_those_that_were_asked_for(bus: EmbeddedBus, call: Called) -> None:
    before, still = two(bus)
    for arguments, expected in (
        ([], [still, before]),
        ([still.id], [still]),
        (["--open"], [still]),
        (["--host", "db-1"], [before]),
        (["--since", "1h"], [still]),
        (["--since", "1h", "--host", "web-1", "--open"], [still]),
    ):
        code, out, _ = call("--json", *arguments)
        assert code == 0
        assert [read_output(line, "out") for line in out.splitlines()] == expected, arguments


def test_where_there_is_none_that_is_said(bus: EmbeddedBus, call: Called) -> None:
    code, out, err = call()
    assert (code, out, err) == (
        0,
        "No incident was open in the last 24 h.\n\nNext: `laggard why` for what is unusual now\n",
        "",
    )
    assert call("--open")[1].startswith("No incident is open.\n")
    assert call("--json") == (0, "", "")


def row_of(keyed_by: KeyedBy, key: str, scope: str, feature: str, ts: float = NOW) -> Frame:
    """A frame of one row with one value."""
    return Frame(keyed_by, key, scope, ts, 1, make_layout(["a[1@1]"], ["a"], [feature]), np.array([[1.0]]))


@pytest.mark.parametrize(
    ("keyed_by", "topic", "record", "nothing", "missed"),
    [
        ("host", COUNTERS, row_of("host", "shop", "process", "threads"), None, "host shap; recorded: shop"),
        (
            "application",
            APPLICATIONS,
            row_of("application", "shop", "performance", "response_time_mean_s"),
            "there are no records of application shop, nor of any other",
            "application shap; recorded: shop",
        ),
        (
            "pool",
            POOLS,
            row_of("pool", "shop", "member", "cpu_user_ratio"),
            "there are no records of pools; ",
            "pool shap; similar: shop",
        ),
        (
            "service",
            REQUESTS,
            Request("shop", NOW, "r1", 0.1),
            "no request is recorded; ",
            "service shap; similar: shop",
        ),
    ],
    ids=["host", "application", "pool", "service"],
)
def test_an_unknown_key_is_distinguished_from_one_without_incidents(
    bus: EmbeddedBus,
    call: Called,
    *,
    keyed_by: str,
    topic: Topic,
    record: Frame | Request,
    nothing: str | None,
    missed: str,
) -> None:
    if nothing is not None:
        code, _, err = call(f"--{keyed_by}", "shop")
        assert (code, nothing in err) == (NO_DATA, True)
    bus.append([Outgoing(TOPICS.name(topic), "shop", encode(record), NOW)])
    assert call(f"--{keyed_by}", "shop")[0] == 0
    code, out, err = call(f"--{keyed_by}", "shap")
    assert (code, out) == (NO_DATA, "")
    assert f"there are no records of {missed}" in err
    another = "pool" if keyed_by == "host" else "host"
    assert call(f"--{keyed_by}", "shop", f"--{another}", "workers")[0] == USAGE


def test_all_that_is_known_of_one(bus: EmbeddedBus, call: Called) -> None:
    _, still = two(bus)
    code, out, err = call(still.id[:7].upper())
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].endswith(f"and still open, 12 min: {still.id}")
    assert lines[2] == "It\\x1b[2J is"
    from_ = time.strftime("%H:%M:%S", time.gmtime(still.opened_ts))
    assert f"  12.3  gaussian  from {from_}" in lines
    assert "        what cpu saw" in lines
    assert ["cpu_user_ratio", "50", "%"] in [line.split()[:3] for line in lines]
    at = math.ceil(still.opened_ts)
    assert lines[-1].startswith(f"Next: `laggard why --host web-1 --at {at}` for the culprits at its onset; ")


def test_where_a_page_is_served_its_address_is_told(
    bus: EmbeddedBus, call: Called, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = incident(1, time.time() - 60)
    append(bus, one)
    assert "Page:" not in call(one.id)[1]
    with Claim(str(tmp_path / "laggard.db"), tmp_path / "state", "serve") as claim:
        claim.write("http://127.0.0.1:1234")
        assert call(one.id[:8])[1].endswith(f"\nPage: http://127.0.0.1:1234/incidents?id={one.id}\n")
        assert "Page:" not in call(one.id, "--json")[1]
    monkeypatch.setenv("LAGGARD_SERVE_URL", "https://laggard.example/")
    assert call(one.id)[1].endswith(f"\nPage: https://laggard.example/incidents?id={one.id}\n")


def test_a_host_that_is_alone_and_silent_is_told_to_be(bus: EmbeddedBus, call: Called) -> None:
    _, still = two(bus)
    now = time.time()

    def send(*frames: tuple[str, float]) -> None:
        made = [row_of("host", host, "process", "threads", ts) for host, ts in frames]
        bus.append([Outgoing(TOPICS.name(COUNTERS), each.key, encode(each), each.ts) for each in made])

    send(("web-1", now - 730.0), ("web-1", now - 725.0), ("web-1", now - 720.0))
    clock = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(now - 720.0))
    said = f"web-1 has been silent since {clock}, for 12 min: whether this goes on is unknown."
    assert call()[1].splitlines()[3] == f"{'':8}{said}"
    assert call()[1].count("silent") == 1, "and not of what is over"
    assert call(still.id)[1].splitlines()[3] == said
    send(("web-1", now - 20.0))
    assert "silent" not in call()[1]
    # Among others it may be further back than is read.
    send(*(("db-1", now) for _ in range(LATELY)))
    assert "        web-1 has been silent for long: whether this goes on is unknown." in call()[1].splitlines()


def test_a_host_with_long_ticks_is_not_told_to_be_silent(bus: EmbeddedBus, call: Called) -> None:
    two(bus)
    now = time.time()
    for ago_s in (1500.0, 900.0):
        frame = row_of("host", "web-1", "process", "threads", now - ago_s)
        bus.append([Outgoing(TOPICS.name(COUNTERS), "web-1", encode(frame), frame.ts)])
    assert "silent" not in call()[1]


def test_what_a_process_was_doing_is_told_with_the_incident(bus: EmbeddedBus, call: Called) -> None:
    _, still = two(bus)
    begins = still.opened_ts + 5.0
    busy = thread(7, "worker", 55.0, Stack((Location("parse", "/srv/server.py", line=40),), 60))
    of_it = diagnosis(
        Phase(True, begins, begins + 60.0, 60, (busy,)), reason="cpu", row=NGINX.row, name="nginx", pid=4711
    )
    another = replace(of_it, id="5a0a0c5e-0000-5000-8000-000000000002", row="n1[1@1]", name="n1", pid=1)
    before = replace(of_it, id="5a0a0c5e-0000-5000-8000-000000000003", row="n2[2@1]", name="before", ts=begins - 800)
    before = replace(before, phases=(replace(of_it.phases[0], begin_ts=begins - 900, end_ts=begins - 800),))
    bus.append([outgoing_diagnosis(one, TOPICS.name(DIAGNOSES)) for one in (before, another, of_it)])
    code, out, err = call(still.id)
    assert (code, err) == (0, "")
    assert out.index("What processes were doing") < out.index("Culprit:\n`nginx`") < out.index("`n1`")
    assert "Not a culprit:\n`n1`" in out
    assert "parse" in out
    assert f"All of it: `laggard diagnose --id {of_it.id[:8]}`" in out
    assert "before" not in out


def test_one_that_proved_to_be_another_leads_there(bus: EmbeddedBus, call: Called) -> None:
    now = time.time()
    goes_on = incident(1, now - 600)
    merged = closed(2, now - 500, now - 400, merged_into=goes_on.id)
    append(bus, goes_on, merged)
    code, out, _ = call(merged.id)
    assert code == 0
    assert f"Next: `laggard incidents {goes_on.id[:8]}`, into which it was merged" in out


def test_an_id_that_there_is_not_or_that_is_several(bus: EmbeddedBus, call: Called) -> None:
    append(bus, *(incident(number, time.time() - number) for number in range(40)))
    code, _, err = call("zz")
    assert code == NO_DATA
    assert "no incident has an id that begins with zz; `laggard incidents --since 30d` lists them" in err
    several = [one for one in "0123456789abcdef" if call(one)[0] == NO_DATA and "incidents have an id" in call(one)[2]]
    assert several, "of forty ids two begin alike"


def test_notices_are_listed(bus: EmbeddedBus, call: Called) -> None:
    append(bus, incident(1, time.time() - 700.0))
    assert call("--notices") == (0, "No notices.\n", "")
    now = time.time()
    given = [
        notice(1, now - 7200.0),
        notice(1, now - 7200.0, "ended"),
        notice(2, now - 600.0),
        notice(2, now - 600.0, "ended", became="1c"),
        notice(3, now - 60.0),
        notice(4, now - 50.0, live=False),
        notice(5, now - 3 * 86400.0),
        notice(5, now - 3 * 86400.0, "ended"),
    ]
    bus.append([outgoing(each, TOPICS) for each in given])
    code, out, err = call("--notices")
    assert (code, err) == (0, "")
    assert [line.split("  ", 1)[1] for line in out.splitlines()] == [
        "n3  open  what is suspicious 3",
        "n2  90 s, became an anomaly  what is suspicious 2",
        "n1  90 s  what is suspicious 1",
    ]
    assert "n3" in call("--notices", "--open")[1]
    assert "n2" not in call("--notices", "--open")[1]
    assert call("--notices", "--host", "n1")[1].count("suspicious") == 1
    shown = [json.loads(line) for line in call("--notices", "--json")[1].splitlines()]
    assert [(each["kind"], each["host"], each["change"]) for each in shown] == [
        ("notice", "n3", "opened"),
        ("notice", "n2", "ended"),
        ("notice", "n1", "ended"),
    ]
    assert "suspicious" not in call()[1], "they are no incidents"
    for more in (["1c"], ["--pool", "shop"]):
        assert call("--notices", *more)[0] == USAGE


@pytest.mark.parametrize("arguments", [["--since", "yesterday"], ["--since"], ["a", "b"]])
def test_a_wrong_command_line_is_said(arguments: Sequence[str], call: Called) -> None:
    assert call(*arguments)[0] == USAGE


def test_where_nothing_is_recorded_that_is_said(call: Called) -> None:
    code, out, err = call()
    assert (code, out) == (NO_DATA, "")
    assert "start `laggard up` first" in err


def test_what_was_not_read_is_said(bus: EmbeddedBus, call: Called, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_RECORDS", 2)
    now = time.time()
    append(bus, *(incident(number, now - 100 + number) for number in range(5)))
    assert "and has not changed since is not among them." in call()[1]


SHOP = Blame("web-1/nginx", "web-1", "cpu_wait_ratio", 0.62, 0.02, 0.01, ("cpu",))


def of_application(number: int, opened_ts: float, **more: Any) -> Incident:
    told = incident(number, opened_ts, operators=("regression",), blame=SHOP, **more)
    evidence = tuple(replace(each, scope="performance") for each in told.evidence)
    told = replace(told, keyed_by="application", key="shop", evidence=evidence)
    return replace(told, sentence=incident_sentence(told, evidence[0]))


def test_an_incident_of_an_application_names_its_models_and_the_blamed_host(bus: EmbeddedBus, call: Called) -> None:
    opened = time.time() - 60.0
    of_host = incident(1, opened, host="shop")
    slow = of_application(2, opened)
    append(bus, of_host, slow)
    at = datetime.fromtimestamp(opened, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert slow.sentence.startswith("On application shop since ")
    assert slow.sentence.endswith(f"Look closer: `laggard models shop`, `laggard why --host web-1 --at {at}`.")
    code, out, _ = call("--application", "shop")
    assert code == 0
    assert "  application shop  " in out
    assert of_host.id[:8] not in out
    assert slow.id[:8] not in call("--host", "shop")[1]
    _, out, _ = call(slow.id[:8])
    assert out.startswith("application shop from ")
    assert "`laggard models shop` for what explains its performance" in out
    assert f"`laggard why --host web-1 --at {math.ceil(opened)}` for the top consumers there" in out
    over = replace(slow, change="closed", until_ts=opened + 50.0, number=2)
    told = incident_sentence(over, over.evidence[0])
    assert "Most likely web-1 was short of CPU. Seen by regression (performance)" in told


def test_an_incident_of_a_pool_is_told_with_who_is_unlike_the_others(bus: EmbeddedBus, call: Called) -> None:
    opened = time.time() - 60.0
    told = incident(1, opened, operators=("covariance",))
    of_pool = replace(told, keyed_by="pool", key="workers")
    append(bus, of_pool, incident(2, opened, host="workers"))
    code, out, _ = call("--pool", "workers", "--json")
    assert (code, [json.loads(line)["id"] for line in out.splitlines()]) == (0, [of_pool.id])
    assert of_pool.id[:8] not in call("--host", "workers")[1]
    _, out, _ = call(of_pool.id[:8])
    assert out.startswith("pool workers from ")
    assert "`laggard pools workers` for the outliers in the pool now" in out
    assert f"`laggard pools workers --at {math.ceil(opened)}` for its onset" in out


def of_service(number: int, opened: float, **changes: object) -> Incident:
    """An incident of the requests of a service, told as the joining does."""
    blame = Blame("3", "lock x.lock", "outlying_ratio", 0.12, 0.0025, 0.004, ())
    found = incident(number, opened, host="wordpress", operators=("requests",), blame=blame)
    said = (
        "12 % of requests, usually 0.25 %, are out of line (`lock x.lock`): waits for a lock (`flock` on /run/x.lock)."
    )
    evidence = tuple(replace(each, scope="request", sentence=said, blame=blame) for each in found.evidence)
    told = replace(found, keyed_by="service", evidence=evidence, **changes)  # type: ignore[arg-type]
    return replace(told, sentence=incident_sentence(told, told.evidence[0]))


def test_an_incident_of_a_service_is_told_with_the_cause_and_how_to_see_its_requests(
    bus: EmbeddedBus, call: Called
) -> None:
    opened = time.time() - 60.0
    told = of_service(1, opened)
    append(bus, told, incident(2, opened, host="wordpress"))
    at = datetime.fromtimestamp(opened, UTC)
    assert told.sentence == (
        f"On service wordpress since {at:%Y-%m-%d %H:%M:%S} UTC: 12 % of requests, usually 0.25 %, are out of line "
        "(`lock x.lock`): waits for a lock (`flock` on /run/x.lock). "
        "Seen by requests (request); the worst score is 2.5. "
        f"Look closer: `laggard requests wordpress --at {at:%Y-%m-%dT%H:%M:%SZ}`."
    )
    code, out, _ = call("--service", "wordpress", "--json")
    assert (code, [json.loads(line)["id"] for line in out.splitlines()]) == (0, [told.id])
    assert told.id[:8] not in call("--host", "wordpress")[1]
    _, out, _ = call(told.id[:8])
    assert out.startswith("service wordpress from ")
    assert "`laggard requests wordpress` for the outlying requests now" in out
    assert f"`laggard requests wordpress --at {math.ceil(opened)}` for its onset" in out
    over = of_service(1, opened, change="closed", until_ts=opened + 50.0)
    assert "UTC). The main cause was `lock x.lock`. Seen by requests" in over.sentence
    assert ended_sentence(over.blame, "request", 50.0, math.nan) == (
        "Resolved after 50 s. The main cause was `lock x.lock`."
    )
