"""The stage of requests: outliers, anomalies, what comes twice or late, silence, clocks set back, errors, recovery."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from laggard.operators.requests.whole import whole
from laggard.pipeline.alarms.courses import OVER_S
from laggard.pipeline.core.bus import Incoming, Partition
from laggard.pipeline.core.engine import states
from laggard.pipeline.core.engine.snapshots import decode_state
from laggard.pipeline.core.engine.stage import REPLAY_HEADER, DeadLetter, Rekeyed
from laggard.pipeline.core.eventtime import SET_BACK_RECORDS
from laggard.pipeline.core.records import Case, Decoder, Feedback, Frame, Mark, Spent, encode, make_layout
from laggard.pipeline.core.records.feedback_output import FeedbackOutput
from laggard.pipeline.core.records.outputs import Anomaly, Incident, Progress, anomaly_id
from laggard.pipeline.core.records.requests import RequestOutput, request_id
from laggard.pipeline.methods.incidents.joiner import Joiner
from laggard.pipeline.methods.requests.stage import MOST_NAMES
from laggard.pipeline.methods.requests.ticks import REQUEST
from laggard.pipeline.scoring.observers import Observer
from tests.pipeline.methods.requests.stages import (
    LOCK,
    T0,
    UNLEARNABLE,
    UNSCORABLE,
    calm,
    locked,
    normal,
    reading,
    stage,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from laggard.operators.requests.results import RequestScore
    from laggard.pipeline.core.engine.stage import Output
    from laggard.pipeline.core.records import Request
    from laggard.pipeline.methods.requests.stage import RequestsTask

INPUT = Partition("t.requests", 0)


def new_task(more: dict[str, Any] | None = None, **options: Any) -> RequestsTask:
    return stage(**more or {}).task(INPUT, **options)


def give(task: RequestsTask, requests: Iterable[Request], *headers: tuple[str, bytes]) -> list[Any]:
    for offset, each in enumerate(requests, start=task.position):
        task.process(Incoming(INPUT, offset, each.service, encode(each), each.ts, headers))
    outputs = list(task.outputs)
    task.outputs.clear()
    return outputs


def kinds(outputs: Sequence[Output]) -> list[str]:
    return ["letter" if isinstance(each, DeadLetter) else type(each).__name__ for each in outputs]


def place(offset: int) -> str:
    return f"t.requests[0]@{offset}"


def service_of(task: RequestsTask, name: str = "shop") -> Any:
    service = task.service(name)
    assert service is not None
    return service


# Outliers.


def test_an_outlier_is_reported_at_once_with_its_cause() -> None:
    task = new_task()
    assert give(task, calm(0, 30)) == []
    slow = locked(30, "slow", host="web-1", name="GET /cart", critical_s={"RU": 0.6})
    (told,) = give(task, [slow])
    assert isinstance(told, RequestOutput)
    assert (told.id, told.operator) == (request_id("requests", "shop", f"web-1 slow {slow.ts!r}"), "requests")
    assert (told.ts, told.service, told.request, told.name, told.host) == (
        slow.ts,
        "shop",
        "slow",
        "GET /cart",
        "web-1",
    )
    assert (told.duration_s, told.odd, told.live) == (0.6, False, True)
    assert 9.0 < told.score < 11.0  # half a second, in units of 50 ms
    assert (told.times_s, told.critical_s) == (slow.times_s, {"RU": 0.6})
    assert told.usual_s["RU"] == pytest.approx(0.105, abs=0.003)
    assert LOCK in told.cause
    assert "`worker` (pid 812)" in told.cause
    assert told.cluster == "lock x.lock"


def test_alike_ones_are_of_one_cluster_and_others_are_of_another() -> None:
    task = new_task()
    give(task, calm(0, 30))
    told = give(task, [*(locked(30 + at) for at in range(3)), reading(33), reading(34)])
    assert len({each.cluster for each in told[:3]}) == 1
    assert len({each.cluster for each in told[3:]}) == 1
    assert told[0].cluster != told[-1].cluster


def test_a_cluster_keeps_its_name_and_no_other_one_has_it() -> None:
    def names(*ends: float) -> list[str]:
        told = give(task, [locked(end) for end in ends])
        return [each.cluster for each in told if isinstance(each, RequestOutput)]

    task = new_task()
    give(task, calm(0, 30))
    (first,) = names(30)
    service = service_of(task)
    service.names = {77: service.names[1]}
    assert names(*(31.0 + at for at in range(9))) == [f"{first} (1)"] * 9
    service.names.pop(77)
    assert names(50) == [f"{first} (1)"]


def test_the_sentence_on_a_cluster_is_of_all_its_requests() -> None:
    task = new_task()
    give(task, calm(0, 30))
    told = [each for each in give(task, (locked(30 + at) for at in range(40))) if isinstance(each, RequestOutput)]
    causes = {each.cluster_cause for each in told}
    assert all(LOCK in each for each in causes)
    # One request of the cluster that loses its time elsewhere, too, does not change what is said of all.
    spent = (Spent("BT", "fcntl", LOCK, "worker", 812, "", 1, 0.4), Spent("BD", "read", "/srv/data", "", 0, "", 9, 0.4))
    times_s = {"RU": 0.1, "BT": 0.4, "BD": 0.4}
    (other,) = give(task, [locked(71, times_s=times_s, spent=spent)])
    assert other.cluster == told[-1].cluster
    assert "/srv/data" in other.cause
    assert other.cluster_cause == told[-1].cluster_cause
    # In a state of an older version there is none yet.
    service = service_of(task)
    state = service.snapshot()
    del state["causes"]
    service.restore(state, Decoder(), "here")
    (again,) = give(task, [locked(72)])
    assert again.cluster == other.cluster
    assert LOCK in again.cluster_cause


def test_the_number_of_remembered_names_is_limited() -> None:
    task = new_task()
    give(task, calm(0, 30))
    give(task, [locked(30)])
    service = service_of(task)
    name = service.names[1]
    service.names = {1: name} | dict.fromkeys(range(101, 100 + MOST_NAMES), name)
    give(task, [locked(31)])
    assert list(service.names)[-1] == 1  # the one used last
    give(task, [reading(32)])
    assert len(service.names) == MOST_NAMES
    assert (101 in service.names, list(service.names)[-1]) == (False, 2)


class Watching(Observer):
    def __init__(self) -> None:
        self.judged: list[tuple[str, str, bool, str]] = []
        self.ticks: list[tuple[float, list[str], list[list[float]]]] = []

    def requested(self, operator: str, request: Request, judged: RequestScore, cluster: str) -> None:
        self.judged.append((operator, request.request, judged.outlier, cluster))

    def scored(self, operator: str, frame: Frame, scores: Any, anomalies: Any) -> None:
        assert (operator, frame.keyed_by, frame.key, frame.scope) == ("requests", "service", "shop", REQUEST)
        self.ticks.append((frame.ts, list(frame.layout.names), frame.values.tolist()))


def test_observers_see_each_request_and_each_tick() -> None:
    watching = Watching()
    task = new_task(observers=[watching])
    give(task, [*calm(0, 30), locked(30, "slow"), *calm(31, 40), normal(40)])
    assert watching.judged[0] == ("requests", "r0.0", False, "")
    assert ("requests", "slow", True, "lock x.lock") in watching.judged
    assert len(watching.judged) == 300 + 1 + 90 + 1
    # Ticks of ten seconds; T0 ends with 0, as ticks do.
    assert [ts for ts, _, _ in watching.ticks] == [T0 + 10, T0 + 20, T0 + 30, T0 + 40]
    _, names, ((every, outliers, lost_s), (of_cluster, _, cluster_lost_s)) = watching.ticks[-1]
    assert names == ["all", "lock x.lock"]
    assert (every, outliers, of_cluster) == (91.0, 1.0, 1.0)
    assert lost_s == cluster_lost_s == pytest.approx(0.495, abs=0.005)
    assert watching.ticks[0][1:] == (["all"], [[100.0, 0.0, 0.0]])


# Too many of them.


def troubled(begin: float, stop: float) -> list[Request]:
    """Ten a second, of which one waits for the lock."""
    found = sorted([*calm(begin, stop), *(locked(at + 0.55) for at in range(int(begin), int(stop)))], key=ended)
    return list(found)


def ended(request: Request) -> float:
    return request.ts + request.duration_s


def test_more_outliers_than_normal_are_an_anomaly() -> None:
    task = new_task()
    give(task, calm(0, 100))
    told = give(task, troubled(100, 160))
    (anomaly,) = [each for each in told if isinstance(each, Anomaly)]
    assert (anomaly.keyed_by, anomaly.key, anomaly.scope, anomaly.operator) == ("service", "shop", REQUEST, "requests")
    assert anomaly.ts == T0 + 110.0
    assert anomaly.id == anomaly_id("requests", "shop", f"request {anomaly.ts!r} -1 1")
    assert (anomaly.live, anomaly.young) == (True, True)
    assert anomaly.blame is not None
    assert (anomaly.blame.row, anomaly.blame.name, anomaly.blame.feature) == ("1", "lock x.lock", "outlying_ratio")
    assert anomaly.blame.value == pytest.approx(0.09, abs=0.01)
    assert anomaly.sentence.startswith("9.1 % of requests, usually ")
    assert "are outliers like `l109.55` (`lock x.lock`): " in anomaly.sentence
    assert LOCK in anomaly.sentence
    assert anomaly.sentence.endswith("Too few requests were seen to be sure.")
    ended = [each for each in give(task, calm(160, 190 + OVER_S)) if isinstance(each, Progress)]
    assert [each.change for each in ended] == ["ended"]
    assert ended[0].id == anomaly.id
    assert T0 + 160.0 <= ended[0].until_ts <= T0 + 170.0


def test_missing_events_are_in_each_record_that_they_touch() -> None:
    task = new_task()
    give(task, calm(0, 100))
    told = give(task, [replace(each, missing_ratio=0.21) for each in troubled(100, 160)])
    assert {each.missing_ratio for each in told if isinstance(each, RequestOutput)} == {0.21}
    (anomaly,) = [each for each in told if isinstance(each, Anomaly)]
    assert "The tracer missed kernel events in up to 21 % of a minute" in anomaly.sentence


def test_each_cause_has_an_anomaly_and_the_incident_names_the_worst_that_goes_on() -> None:
    task, joiner = new_task(), Joiner()
    give(task, calm(0, 100))
    incidents: list[Incident] = []
    locks = [each for at in range(100, 160) for each in ([locked(at + 0.55)] if at % 2 else [])]
    reads = [reading(at + 0.75) for at in range(120, 200)]
    given = sorted([*calm(100, 300), *locks, *reads], key=lambda each: each.ts + each.duration_s)
    for told in give(task, given):
        if isinstance(told, Anomaly | Progress):
            incidents += joiner.take(told)
    first, both, *_, left, closed = incidents
    assert (first.change, closed.change) == ("opened", "closed")
    assert {(each.id, each.change) for each in incidents[1:-1]} == {(first.id, "extended")}
    blamed = [each.blame.name for each in (first, both, left) if each.blame]
    assert blamed == ["lock x.lock", "disk reads", "disk reads"]
    assert " (`disk reads`): " in both.sentence
    assert "Also: `lock x.lock` since 22:15:10." in both.sentence
    assert "It has been so for " in left.sentence
    assert "Resolved: `lock x.lock` at 22:16:10." in left.sentence
    assert [(each.opened_ts - T0, each.until_ts - T0) for each in closed.evidence] == [(110.0, 170.0), (130.0, 200.0)]
    assert left.ts == T0 + 200.0  # half a minute after it was last too frequent


def test_what_a_person_says_is_usual_ends_and_is_not_told_again() -> None:
    task = new_task()
    give(task, calm(0, 100))
    (anomaly,) = [each for each in give(task, troubled(100, 130)) if isinstance(each, Anomaly)]
    said = Feedback("service", "shop", T0 + 130.0, "a", "usual", (Case("lock x.lock"),))
    task.process(Incoming(INPUT, task.position, "shop", encode(said), said.ts))
    ended, told = task.outputs
    assert isinstance(ended, Progress)
    assert (ended.id, ended.change, ended.feedback) == (anomaly.id, "ended", "usual")
    assert told == FeedbackOutput.of(said, "requests", live=True)
    task.outputs.clear()
    assert set(kinds(give(task, troubled(130, 200)))) == {"RequestOutput"}


def test_what_was_recorded_earlier_is_not_live_nor_is_a_tick_with_something_of_it() -> None:
    task = new_task()
    found = give(task, [*calm(0, 100), *troubled(100, 120)], (REPLAY_HEADER, b""))
    assert set(kinds(found)) == {"RequestOutput", "Anomaly"}
    assert {each.live for each in found} == {False}
    task = new_task()
    give(task, calm(0, 100))
    give(task, [normal(100.0)], (REPLAY_HEADER, b""))
    (anomaly,) = [each for each in give(task, troubled(100, 115)) if isinstance(each, Anomaly)]
    assert not anomaly.live


# What comes twice, or late.


def test_what_comes_twice_changes_nothing() -> None:
    task = new_task()
    sent = [normal(0.1 * number, sequence=number, host="web-1") for number in range(400)]
    other = [normal(0.1 * number, sequence=number, host="web-2") for number in range(400)]
    give(task, [*sent, *other, *sent[380:], sent[3]])
    assert task.telemetry.duplicates == 21
    assert service_of(task).records == 800


def test_what_ended_out_of_order_counts_and_what_is_far_behind_is_late() -> None:
    watching = Watching()
    task = new_task(observers=[watching])
    assert give(task, [normal(3600), normal(7000), normal(3500), normal(7010)]) == []
    assert [(ts, values[0][0]) for ts, _, values in watching.ticks] == [(T0 + 3610, 1.0), (T0 + 7010, 2.0)]
    (letter,) = give(task, [normal(3409)])
    assert isinstance(letter, DeadLetter)
    assert letter.reason == (
        f"{place(4)}: late: expected a time of at least {T0 + 3410!r}, got {T0 + 3409!r}; 1 of 12 after which the "
        "clock counts as set back, and the stream begins anew"
    )
    assert task.telemetry.late == 1


def test_a_clock_that_is_set_back_begins_the_rates_anew_and_keeps_what_requests_are_like() -> None:
    task = new_task()
    ahead = [*calm(1e6, 1e6 + 60), *troubled(1e6 + 60, 1e6 + 80)]
    numbered = [replaced(each, number, "web-1") for number, each in enumerate(ahead, start=10**6)]
    assert "Anomaly" in kinds(give(task, numbered))
    back = [replaced(each, number, "web-1") for number, each in enumerate(calm(0, 30))]
    outputs = give(task, back)
    assert kinds(outputs) == ["letter"] * (SET_BACK_RECORDS - 1) + ["Progress"]
    assert (outputs[-1].change, task.telemetry.clocks_set_back) == ("ended", 1)
    assert service_of(task).ticks.newest_ts == pytest.approx(T0 + 29.9)
    assert kinds(give(task, [locked(31)])) == ["RequestOutput"]  # it is known what is usual
    assert give(task, [back[-1]]) == []
    assert task.telemetry.duplicates == 1


def replaced(request: Request, sequence: int, host: str) -> Request:
    return replace(request, sequence=sequence, host=host)


# What cannot be used.


def test_an_operator_that_raises_costs_one_request() -> None:
    task = new_task()
    give(task, calm(0, 30))
    letters = give(task, [normal(30, UNSCORABLE), normal(30.1, UNLEARNABLE), normal(30.2)])
    assert [each.reason for each in letters] == [
        f"{place(300)}: not scored: ValueError: {UNSCORABLE}",
        f"{place(301)}: not learned: ValueError: {UNLEARNABLE}",
    ]
    assert [each.record.offset for each in letters] == [300, 301]
    assert kinds(give(task, [locked(31)])) == ["RequestOutput"]


def test_what_is_no_request_of_the_service_is_refused() -> None:
    task = new_task()
    layout = make_layout(["a"], ["a"], ["x"])
    frame = Frame("service", "shop", REQUEST, T0, 1, layout, np.zeros((1, 1)))
    records: list[tuple[str, Request | Frame | Mark]] = [("other", normal(1)), ("shop", frame), ("h", Mark("h", T0))]
    for offset, (key, each) in enumerate(records):
        task.process(Incoming(INPUT, offset, key, encode(each), T0))
    task.process(Incoming(INPUT, 3, "shop", b"\xc1", T0))
    reasons = [letter.reason.partition(": ")[2] for letter in task.outputs if isinstance(letter, DeadLetter)]
    assert reasons[:3] == [
        "expected the record's key 'other', got 'shop'",
        "expected a request or feedback, got a frame",
        "expected a request or feedback, got a mark",
    ]
    assert reasons[3].startswith("expected a MessagePack map")


def test_a_service_that_falls_silent_ends_its_anomalies_by_the_requests_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(states, "SILENT_RECORDS", 5)
    task = new_task()
    (anomaly,) = [each for each in give(task, [*calm(0, 100), *troubled(100, 130)]) if isinstance(each, Anomaly)]
    (ended,) = give(task, [normal(130 + 300.0 * number, service="blog") for number in range(14)])
    assert (ended.id, ended.change) == (anomaly.id, "ended")
    # The tick that was open, and in which the trouble went on, was judged first.
    assert ended.silent_since_ts == T0 + 130.0
    assert not [each for each in give(task, calm(4500, 4530)) if isinstance(each, Progress)]


def test_a_tick_closes_when_its_service_falls_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "SILENT_RECORDS", 5)
    task = new_task()
    assert {type(each) for each in give(task, [*calm(0, 100), *troubled(100, 109)])} == {RequestOutput}
    others = [normal(130 + 300.0 * number, service="blog") for number in range(14)]
    anomaly, ended = give(task, others)
    assert (anomaly.key, anomaly.ts, ended.id, ended.change) == ("shop", T0 + 110.0, anomaly.id, "ended")


# Recovery, and the end.


def test_a_service_is_saved_after_many_more_records_than_a_host() -> None:
    task = new_task()
    task.states.loaded(0)
    give(task, calm(0, 600, 1.0))
    assert task.states.take(task.position) == []
    sooner = new_task(snapshot_records=4)  # 100 requests
    sooner.states.loaded(0)
    give(sooner, calm(0, 250, 1.0))
    taken = [each for each in sooner.states.take(sooner.position) if each.key == "shop"]
    assert len(taken) == 2
    state = decode_state(taken[-1].value, "here")
    assert (state["operator"], state["state_version"]) == ("requests", 1)


def noisy(seed: int) -> list[Request]:
    """Two services: lulls, troubles, requests out of order, twice, late, and some that the operator cannot take."""
    draw = random.Random(seed)
    found: list[Request] = []
    for number in range(900):
        at = 0.2 * number + (400.0 if number > 600 else 0.0)
        host = draw.choice(("web-1", "web-2"))
        more: dict[str, Any] = {"sequence": number, "host": host, "service": draw.choice(("shop", "shop", "blog"))}
        if 300 < number < 400 and draw.random() < 0.3:
            found.append(locked(at, f"l{number}", **more))
        elif draw.random() < 0.02:
            found.append(reading(at, f"d{number}", **more))
        elif draw.random() < 0.01:
            found.append(normal(at, draw.choice((UNSCORABLE, UNLEARNABLE)), **more))
        else:
            found.append(normal(at + draw.uniform(-3.0, 0.0), f"r{number}", draw=draw, **more))
        if draw.random() < 0.03:
            found.append(draw.choice(found[-20:]))
        if draw.random() < 0.01:
            found.append(normal(at - 4000.0, f"late{number}", **more | {"host": "late"}))
    return found


def plain(output: Output) -> Any:
    assert not isinstance(output, Rekeyed)
    return output.reason if isinstance(output, DeadLetter) else output.to_json()


def test_whenever_it_is_written_down_and_read_back_it_goes_on_alike() -> None:
    requests = noisy(3)
    expected = [json.dumps(plain(each)) for each in give(new_task(), requests)]
    assert {json.loads(each)["kind"] for each in expected if each.startswith("{")} >= {"anomaly", "request"}
    assert any(": late: " in each for each in expected)
    for cut in (5, 133, 310, 402, 777, len(requests) - 1):
        first = new_task()
        got = [json.dumps(plain(each)) for each in give(first, requests[:cut])]
        first.states.loaded(first.position)
        first.states.save_all(first.position)
        second = new_task()
        taken = first.states.take(first.position)
        assert second.states.load(taken).damaged == {}
        second.states.loaded(first.position)
        second.position = first.position
        second.states.save_all(second.position)
        got += [json.dumps(plain(each)) for each in give(second, requests[cut:])]
        assert got == expected
        again = new_task()
        again.states.load(taken)
        for each in taken:
            if each.key:
                service = service_of(again, each.key)
                assert json_of(service.snapshot()) == json_of(decode_state(each.value, "here"), service.snapshot())


def json_of(state: dict[str, Any], only: dict[str, Any] | None = None) -> str:
    """A state bit for bit."""
    chosen = {name: value for name, value in state.items() if only is None or name in only}
    return json.dumps(chosen, default=lambda each: each.hex() if isinstance(each, bytes) else each.tobytes().hex())


def test_at_the_end_of_recorded_data_the_tick_that_is_open_closes() -> None:
    task = new_task(live=False)
    told = give(task, [*calm(0, 100), *troubled(100, 108)])
    assert set(kinds(told)) == {"RequestOutput"}
    task.finish()
    assert kinds(task.outputs) == ["Anomaly"]
    task.outputs.clear()
    task.finish()
    assert task.outputs == []


# As published.


def as_published(requests: Iterable[Any]) -> Any:
    return whole(requests, eps_s=0.05, minimum_points=5)  # type: ignore[arg-type]


def test_as_published_recorded_requests_are_judged_by_all_others_at_the_end() -> None:
    task = new_task({"whole": as_published}, live=False)
    # The first one is an outlier, too: as they come nothing could be said of it. One more would make them dense.
    requests = [locked(0, "first"), *calm(1, 30), *(locked(30 + at, f"l{at}") for at in range(3)), normal(50)]
    assert give(task, requests) == []
    task.finish()
    told = [each for each in task.outputs if isinstance(each, RequestOutput)]
    assert len(told) == len(task.outputs)
    assert [each.request for each in told] == ["first", "l0", "l1", "l2"]
    assert told[0].id == request_id("requests", "shop", f" first {told[0].ts!r}")
    assert {each.cluster for each in told} == {"lock x.lock"}
    assert {(each.young, each.live) for each in told} == {(False, False)}
    assert told[0].score == pytest.approx(10.0, abs=0.2)


def test_a_request_that_would_end_after_all_time_is_refused_and_moves_no_clock() -> None:
    task = new_task()
    give(task, calm(0, 30))
    (letter,) = give(task, [replace(normal(30.0), duration_s=1e300)])
    assert isinstance(letter, DeadLetter)
    assert "'duration_s': expected an end by 253402300799" in letter.reason
    assert give(task, calm(30, 60)) == []
