"""Saturated hosts from recorded frames to incidents, and what is said of them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

from laggard.operators.saturation.conditions import CONDITIONS
from laggard.operators.saturation.results import Reading, Resource, User
from laggard.pipeline.core.bus import Incoming
from laggard.pipeline.core.records import Case, Feedback, Frame, encode, make_layout
from laggard.pipeline.core.records.json_lines import write_line
from laggard.pipeline.core.records.outputs import Anomaly, Progress
from laggard.pipeline.manifest import read_settings
from laggard.pipeline.methods.saturation.text import blamed_holder, blamed_user, saturation_sentence
from laggard.pipeline.wiring import wire
from tests.pipeline.core.engine.conftest import INPUT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from laggard.operators.saturation.results import Name, Use
    from tests.pipeline.conftest import Replaying

INTERVAL_S: Final = 5.0
BEGIN: Final = 1.7e9

HOST = make_layout(("host",), ("host",), ("pressure_cpu_some_ratio", "cpu_busy_ratio", "filesystem_/var_used_ratio"))
ROWS = ("web[1@1]", "web[2@1]", "batch[3@1]", "report[4@1]")
PROCESSES = make_layout(ROWS, ("web", "web", "batch", "report"), ("cpu_user_ratio", "cpu_system_ratio"))


def frames(
    minutes: float, *waits: tuple[float, float], hog: tuple[float, float] = (0.0, 0.0), full: float = 0.5
) -> Any:
    """A host whose tasks wait from and to these minutes, while `report` uses 2 cores from and to others."""
    random = np.random.default_rng(3)

    def made() -> Iterator[str]:
        for tick in range(round(minutes * 60.0 / INTERVAL_S)):
            ts, minute = BEGIN + tick * INTERVAL_S, tick * INTERVAL_S / 60.0
            waiting = any(begin < minute <= end for begin, end in waits)
            used = random.normal([[0.3, 0.1], [0.3, 0.1], [1.2, 0.05], [0.01, 0.01]], 0.01)
            used[3, 0] += 2.0 * (hog[0] < minute <= hog[1])
            yield write_line(Frame("host", "web-1", "process", ts, 2 * tick, PROCESSES, np.abs(used)))
            host = np.array([[0.9 if waiting else 0.1, 1.0 if waiting else 0.5, full]])
            yield write_line(Frame("host", "web-1", "host", ts, 2 * tick + 1, HOST, host))

    return made()


def replayed(replay: Replaying, lines: Any, operators: str = "saturation") -> dict[str, list[dict[str, Any]]]:
    found, _ = replay.json(lines, "--operators", operators)
    kinds = ("anomaly", "progress", "incident")
    return {kind: [each for each in found if each["kind"] == kind] for kind in kinds}


def minute(ts: float) -> float:
    return (ts - BEGIN) / 60.0


def test_a_saturated_host_is_one_incident_from_its_onset_to_its_end(replay: Replaying) -> None:
    found = replayed(replay, frames(60, (20.0, 40.0)))
    (anomaly,) = found["anomaly"]
    assert (anomaly["operator"], anomaly["scope"], anomaly["host"]) == ("saturation", "host", "web-1")
    assert 20.5 < minute(anomaly["ts"]) <= 21.5
    assert minute(anomaly["onset_ts"]) == pytest.approx(20.0, abs=0.25)
    assert (anomaly["blame"]["row"], anomaly["blame"]["feature"]) == ("batch[3@1]", "cpu_single_ratio")
    assert anomaly["blame"]["resources"] == ["cpu"]
    opened, *_, closed = found["incident"]
    assert (opened["change"], closed["change"]) == ("opened", "closed")
    assert minute(closed["opened_ts"]) == pytest.approx(20.0, abs=0.25)
    assert minute(closed["until_ts"]) == pytest.approx(40.5, abs=1.0)
    assert minute(closed["ts"]) <= 44.0
    assert "`batch` (pid 3)" in closed["sentence"]
    assert anomaly["sentence"] == (
        "The CPUs are saturated: some task has waited for one 60.6 % of the time. It has been so for 66 s. They are "
        "used most by `batch` (pid 3, 1.25 cores) and `web` (2 processes, 0.80 cores)."
    )


@pytest.mark.slow
def test_saturation_that_is_normal_is_still_reported(replay: Replaying) -> None:
    found = replayed(replay, frames(240, (0.0, 230.0)), "gaussian,saturation")
    (opened, *_, closed) = [each for each in found["incident"] if each["operator"] == "saturation"]
    assert (opened["change"], closed["change"]) == ("opened", "closed")
    assert minute(opened["ts"]) <= 2.0
    assert minute(closed["until_ts"]) == pytest.approx(230.5, abs=1.0)


def test_a_hog_and_what_the_host_feels_of_it_are_one_incident(replay: Replaying) -> None:
    found = replayed(replay, frames(180, (120.0, 140.0), hog=(120.0, 140.0)), "gaussian,saturation")
    incidents = {
        each["id"] for each in found["incident"] if not each["merged_into"] and minute(each["opened_ts"]) > 110
    }
    assert len(incidents) == 1
    told = [each["sentence"] for each in found["incident"] if each["change"] == "extended"]
    assert any("`report` (pid 4" in each and "The CPUs are saturated" in each for each in told)
    assert {each["blame"]["name"] for each in found["incident"]} == {"report"}


@pytest.mark.slow
def test_on_a_host_that_is_always_saturated_each_hog_is_an_incident_of_its_own(replay: Replaying) -> None:
    found = replayed(replay, frames(200, (0.0, 200.0), hog=(150.0, 170.0)), "gaussian,saturation")
    blamed = {each["id"]: each["blame"]["name"] for each in found["incident"] if each["change"] == "opened"}
    assert sorted(blamed.values()) == ["batch", "report"]
    (closed,) = [each for each in found["incident"] if each["change"] == "closed"]
    assert (closed["blame"]["name"], minute(closed["until_ts"]) < 180.0) == ("report", True)


def test_a_full_filesystem_without_writers_blames_the_host(replay: Replaying) -> None:
    found = replayed(replay, frames(10, full=0.97))
    (anomaly,) = found["anomaly"]
    assert (anomaly["blame"]["name"], anomaly["blame"]["row"]) == ("filesystem /var", "host")
    assert anomaly["sentence"] == "The filesystem `/var` is nearly full: 97 % of it is in use. It has been so for 0 s."


LIMITS = make_layout(
    ("descriptors web[1@1]", "memory /batch.service"), ("web[1@1]", "batch[3@1]"), ("used_ratio", "unused_bytes")
)


def with_limits(minutes: float, descriptors: float, memory: float) -> Iterator[str]:
    """A calm host; from minute 5 on a process, and a control group, use these shares of their limits."""
    yield from frames(5)
    for tick in range(round(minutes * 60.0 / INTERVAL_S)):
        ts, passed = BEGIN + 300.0 + tick * INTERVAL_S, tick * INTERVAL_S / 60.0
        values = np.array([[min(descriptors + 0.01 * passed, 1.0), np.nan], [memory, 5e7]])
        yield write_line(Frame("host", "web-1", "process", ts, 1000 + 3 * tick, PROCESSES, np.full((4, 2), 0.1)))
        yield write_line(Frame("host", "web-1", "limit", ts, 1001 + 3 * tick, LIMITS, values))


def test_a_limit_blames_who_holds_most_of_it(replay: Replaying) -> None:
    found = replayed(replay, with_limits(30, 0.5, 0.96), "gaussian,saturation")
    anomalies = {each["ranking"][0]["name"]: each for each in found["anomaly"]}
    assert set(anomalies) == {"memory /batch.service", "forecast descriptors web[1@1]"}
    memory, descriptors = anomalies["memory /batch.service"], anomalies["forecast descriptors web[1@1]"]
    assert (memory["scope"], memory["operator"]) == ("limit", "saturation")
    assert (memory["blame"]["row"], memory["blame"]["name"]) == ("batch[3@1]", "batch")
    assert memory["blame"]["resources"] == ["memory"]
    assert memory["sentence"] == (
        "The control group `/batch.service` is running out of memory: 96 % of its limit is in use and 50 MB is left. "
        "It has been so for 5 s. It is held most by `batch` (pid 3)."
    )
    assert (descriptors["blame"]["row"], descriptors["blame"]["feature"]) == ("web[1@1]", "used_ratio"), "unknown here"
    assert descriptors["sentence"].startswith("`web` will reach its limit of file descriptors in about ")
    assert descriptors["sentence"].endswith("60 % is in use. Its pid is 1.")
    opened = [each for each in found["incident"] if each["change"] == "opened"]
    assert sorted(each["blame"]["name"] for each in opened) == ["batch", "web"]
    assert any("The most likely culprit" not in each["sentence"] and "`batch`" in each["sentence"] for each in opened)


def test_it_is_off_where_it_is_not_among_the_operators(replay: Replaying) -> None:
    assert replayed(replay, frames(60, (20.0, 40.0)), "cpu")["incident"] == []


# What is said.


class Using:
    """Who uses what, as a test has it."""

    def __init__(self, *users: User, total: float | None = None) -> None:
        self._users = users
        self._total = sum(each.now for each in users) if total is None else total

    def total(self, use: Use) -> float:
        return self._total

    def using(self, use: Use, most: int = 3) -> Sequence[User]:
        return self._users[:most]

    def used_by(self, name: str, use: Use) -> float:
        return next((each.now for each in self._users if each.name == name), math.nan)


def said(name: Name, value: float, *users: User, unused: float = math.nan, id_: str = "", **more: Any) -> str:
    condition = CONDITIONS[name]
    resource = Resource(more.pop("mean", value), samples=more.pop("samples", ()))
    reading = Reading(id_ or name, condition, condition.feature, value, unused)
    return saturation_sentence(reading, resource, more.pop("lasted_s", 180.0), Using(*users), **more)


def held(name: Name, row: str, holder: str, value: float, *, unused: float = math.nan, **more: Any) -> str:
    resource = Resource(value, samples=more.pop("samples", ()))
    reading = Reading(row, CONDITIONS[name], "used_ratio", value, unused, row, holder)
    return saturation_sentence(reading, resource, 180.0, Using(HOG), **more)


HOG = User("hog", "hog[7@1]", 1, 2e9, 1e7)
GROWING = tuple((60.0 * step, 0.5 + 0.01 * step) for step in range(11))


def test_what_is_said(golden: Callable[[Path, str], None]) -> None:
    web, leak = User("web", "web[1@1]", 6, 1e9, 1e9), User("leak", "leak[9@1]", 1, 90_000.0, 80_000.0)
    found = [
        said("cpu", 0.8, User("miner", "miner[9@1]", 1, 1.9, 0.4), mean=0.75),
        said("memory", 0.96, HOG, web, unused=1e9),
        said("memory_pressure", 0.1, mean=0.25, lasted_s=50.0),
        said("disk", 0.8, User("dump", "dump", 1, 4e7, 1e7)),
        said("filesystem", 0.97, id_="filesystem /a\x1b[2Jb", unused=5e8),
        said("descriptors", 0.93, leak),
        said("pids", 0.92, User("bomb", "bomb[9@1]", 3000, 30_000.0, 10.0)),
        said("heat", 0.4, User("miner", "miner[9@1]", 1, 1.0, 1.0)),
        said("memory", 0.6, HOG, unused=8e9, samples=GROWING, forecast=True),
        said("descriptors", 0.6, samples=GROWING, forecast=True),
        held("group_memory", "memory /a\x1b[2Jb.service", "java[7@1]", 0.97, unused=3e6),
        held("group_pids", "pids /system.slice", "", 0.95),
        held("process_descriptors", "descriptors web[7@1]", "web[7@1]", 0.92),
        held("group_memory", "memory /b", "java[7@1]", 0.6, unused=4e8, samples=GROWING, forecast=True),
        held("group_pids", "pids /b", "sh[7@1]", 0.6, samples=GROWING, forecast=True),
        held("process_descriptors", "descriptors web[7@1]", "web[7@1]", 0.6, samples=GROWING, forecast=True),
        held("group_memory", "memory /x{}", "java[7@1]", 0.97),
    ]
    assert all(map(str.isprintable, found))
    golden(Path(__file__).parent / "golden" / "sentences.txt", "\n".join([*found, ""]))


@pytest.mark.parametrize(
    ("users", "blamed"),
    [
        (Using(HOG, total=3e9), "hog"),
        (Using(HOG, total=2e10), None),  # one of many that use as much
        (Using(), None),
    ],
)
def test_who_uses_much_of_it_is_blamed(users: Using, blamed: str | None) -> None:
    reading = Reading("memory", CONDITIONS["memory"], "memory_used_ratio", 0.96, math.nan)
    found = blamed_user(reading, users)
    assert (None if found is None else found.name) == blamed
    if found is not None:
        assert (found.row, found.feature, found.value, found.resources) == (
            HOG.row,
            "memory_rss_bytes",
            2e9,
            ("memory",),
        )


@pytest.mark.parametrize(
    ("name", "feature"),
    [("group_memory", "memory_rss_bytes"), ("group_pids", "threads"), ("process_descriptors", "descriptors")],
)
def test_who_is_at_a_limit_is_blamed_for_what_it_holds(name: Name, feature: str) -> None:
    reading = Reading("x /y", CONDITIONS[name], "used_ratio", 0.96, math.nan, "x /y", "hog[7@1]")
    found = blamed_holder(reading, Using(HOG))
    assert (found.row, found.name, found.feature, found.value) == ("hog[7@1]", "hog", feature, 2e9)
    for users in (None, Using()):
        found = blamed_holder(reading, users)
        assert (found.name, found.feature, found.value) == ("hog", "used_ratio", 0.96), "it is not known what it holds"
    found = blamed_holder(reading._replace(holder=""), Using(HOG))
    assert (found.row, found.name, found.feature) == ("x /y", "/y", "used_ratio")


@pytest.mark.parametrize(("scope", "resource"), [("host", "cpu"), ("limit", "memory")])
def test_what_people_call_usual_of_a_program_is_not_told_again(scope: str, resource: str) -> None:
    """Its rows are the host, or limits: none of them is called like the culprit."""
    (wired,) = [each for each in wire(read_settings(environ={}, flags=[])) if each.name == "saturation"]
    task, said = (
        wired.task(INPUT),
        Feedback("host", "web-1", BEGIN + 600.0, "a", "usual", (Case("batch", (resource,)),)),
    )
    for offset, one in enumerate(saturated(scope, said)):
        task.process(Incoming(INPUT, offset, "web-1", encode(one), one.ts))
    (opened,) = [each for each in task.outputs if isinstance(each, Anomaly)]
    assert opened.blame is not None
    assert (opened.scope, opened.blame.name, opened.blame.resources) == (scope, "batch", (resource,))
    (ended,) = [each for each in task.outputs if isinstance(each, Progress) and each.change == "ended"]
    assert (ended.id, ended.feedback) == (opened.id, "usual")


def saturated(scope: str, said: Feedback) -> Iterator[Frame | Feedback]:
    """20 minutes in which `batch` has the host's CPUs, or its control group, saturated; after 10 somebody speaks."""
    used = np.array([[0.1, 0.0], [0.1, 0.0], [1.2, 0.0], [0.1, 0.0]])
    near = np.array([[0.1, np.nan], [0.97, 5e7]])
    for tick in range(240):
        ts = BEGIN + tick * INTERVAL_S
        if tick == 120:
            yield said
        yield Frame("host", "web-1", "process", ts, 2 * tick, PROCESSES, used)
        if scope == "host":
            yield Frame("host", "web-1", "host", ts, 2 * tick + 1, HOST, np.array([[0.9, 1.0, 0.5]]))
        else:
            yield Frame("host", "web-1", "limit", ts, 2 * tick + 1, LIMITS, near)
