"""Re-keying to pools: whose members a host has, how they are called, and that each frame is there once."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np
import pytest

from laggard.pipeline.core.bus import Incoming, Partition
from laggard.pipeline.core.engine.publishing import outgoing
from laggard.pipeline.core.engine.stage import REPLAY_HEADER, DeadLetter, Rekeyed
from laggard.pipeline.core.records import Decoder, Frame, Mark, encode, make_layout
from laggard.pipeline.core.topics import COUNTERS, POOLS, Topics
from laggard.pipeline.methods.pools.pooling import Members, Pooling, Rows
from tests.pipeline.ending import rekeyed
from tests.pipeline.methods.pools.records import NAN, T0

if TYPE_CHECKING:
    from pathlib import Path

TOPICS = Topics("t.")
INPUT = Partition(TOPICS.name(COUNTERS), 0)
MEMBERS = Members({"web": "web-*/gunicorn web-*/nginx*", "fleet": "web-* db-1", "jobs": "*/cron"})
FEATURES = ("cpu_user_ratio", "memory_rss_bytes")


def host_frame(host: str = "web-1", ts: float = 0.0, scope: str = "process", sequence: int = 7) -> Frame:
    rows = ("gunicorn[1@1]", "cron[2@1]", "gunicorn[3@1]", "nginx: worker[4@1]", "kworker/0:1[5@1]")
    layout = make_layout(rows, [row.partition("[")[0] for row in rows], FEATURES, ["g", "", "g", "n", ""])
    values = np.arange(10.0).reshape(5, 2)
    return Frame("host", host, scope, T0 + ts, sequence, layout, values)


def whole_host(host: str = "web-1") -> Frame:
    return Frame("host", host, "host", T0, 1, make_layout(["host"], ["host"], FEATURES), np.array([[0.5, NAN]]))


def test_processes_that_a_pattern_names_are_members() -> None:
    web, jobs = Rows(MEMBERS).rekeyed(host_frame())
    assert (web.keyed_by, web.key, web.scope, web.hosts) == ("pool", "web", "member", ("web-1",))
    assert (web.ts, web.sequence) == (T0, 7)
    assert web.layout.rows == ("web-1/gunicorn[1@1]", "web-1/gunicorn[3@1]", "web-1/nginx: worker[4@1]")
    assert web.layout.names == ("web-1/gunicorn", "web-1/gunicorn", "web-1/nginx: worker")
    assert (web.layout.features, web.layout.commands) == (FEATURES, ("g", "g", "n"))
    np.testing.assert_array_equal(web.values, [[0.0, 1.0], [4.0, 5.0], [6.0, 7.0]])
    assert (jobs.key, jobs.layout.rows) == ("jobs", ("web-1/cron[2@1]",))
    for each in (web, jobs):
        Decoder().decode(encode(each), "here")


def test_a_pattern_without_a_process_names_hosts() -> None:
    (frame,) = Rows(MEMBERS).rekeyed(whole_host("db-1"))
    assert (frame.key, frame.layout.rows, frame.layout.names) == ("fleet", ("db-1",), ("db-1",))
    np.testing.assert_array_equal(frame.values, [[0.5, NAN]])
    assert [*Rows(MEMBERS).rekeyed(whole_host("cache"))] == []
    empty = Frame("host", "db-1", "host", T0, 1, make_layout([], [], FEATURES), np.zeros((0, 2)))
    assert [*Rows(MEMBERS).rekeyed(empty)] == []


def test_a_host_whose_last_member_has_gone_says_so() -> None:
    rows = Rows(MEMBERS)
    assert [len(each.layout.rows) for each in rows.rekeyed(host_frame())] == [3, 1]
    layout = make_layout(["sshd[9@1]"], ["sshd"], FEATURES, ["s"])
    web, jobs = rows.rekeyed(Frame("host", "web-1", "process", T0 + 5.0, 8, layout, np.ones((1, 2))))
    for each in (web, jobs):
        assert (each.hosts, each.layout.rows, each.layout.features) == (("web-1",), (), FEATURES)
        Decoder().decode(encode(each), "here")


def test_what_stands_between_levels_is_in_no_part() -> None:
    (frame,) = Rows(Members({"all": "*/*"})).rekeyed(host_frame("a/b"))
    assert frame.layout.rows[-1] == "a:b/kworker:0:1[5@1]"
    assert frame.hosts == ("a/b",)
    (kernel,) = Rows(Members({"k": "*/kworker/*"})).rekeyed(host_frame())
    assert kernel.layout.rows == ("web-1/kworker:0:1[5@1]",)


def test_names_are_looked_at_anew_where_they_change() -> None:
    rows = Rows(Members({"web": "*/gunicorn"}))
    (first,) = rows.rekeyed(host_frame())
    (again,) = rows.rekeyed(host_frame(ts=5.0))
    assert again.layout is first.layout
    layout = make_layout(["gunicorn[9@1]"], ["gunicorn"], ["threads"])
    (other,) = rows.rekeyed(Frame("host", "web-1", "process", T0, 1, layout, np.ones((1, 1))))
    assert (other.layout.rows, other.layout.commands) == (("web-1/gunicorn[9@1]",), ())


# The stage.


def taken(record: Incoming) -> list[object]:
    task = Pooling(MEMBERS).task(INPUT)
    task.process(record)
    assert task.position == record.offset + 1
    return list(task.outputs)


def incoming(frame: Frame, **headers: bytes) -> Incoming:
    return Incoming(INPUT, 3, frame.key, encode(frame), frame.ts, tuple(headers.items()))


def test_members_go_to_their_pools_and_all_else_nowhere() -> None:
    assert [each.frame.key for each in taken(incoming(host_frame())) if isinstance(each, Rekeyed)] == ["web", "jobs"]
    assert taken(incoming(host_frame(scope="agent"))) == []
    assert taken(Incoming(INPUT, 3, "web-1", encode(Mark("web-1", T0)), T0)) == []
    assert taken(Incoming(INPUT, 3, "web-1", b"junk", T0)) == [], "an operator on the same topic tells it"
    # Nor do names too long for a frame.
    layout = make_layout(["x" * 1020], ["gunicorn"], ["y"])
    (letter,) = taken(incoming(Frame("host", "web-1", "process", T0, 1, layout, np.ones((1, 1)))))
    assert isinstance(letter, DeadLetter)
    assert "not re-keyed: field 'rows[0]': expected text of 1 to 1,024" in letter.reason


@pytest.mark.parametrize("headers", [{}, {REPLAY_HEADER: b""}])
def test_they_go_on_as_they_came(headers: dict[str, bytes]) -> None:
    rekeyed = taken(incoming(host_frame(ts=5.0), **headers))[0]
    assert isinstance(rekeyed, Rekeyed)
    sent = outgoing(rekeyed, TOPICS)
    assert (sent.topic, sent.key, sent.ts) == ("t.pools", "web", T0 + 5.0)
    assert [name for name, _ in sent.headers] == list(headers)


@pytest.mark.slow
def test_each_frame_is_there_once_whoever_ends_in_between(tmp_path: Path) -> None:
    draw = random.Random(5)
    frames = [host_frame(draw.choice(["web-1", "db-1"]), float(n), sequence=n) for n in range(80)]
    found = rekeyed(tmp_path, Pooling(Members({"web": "web-*/gunicorn", "jobs": "*/cron"})), TOPICS, frames, POOLS)
    pools = {"web-1": ("web", "jobs"), "db-1": ("jobs",)}
    assert found == [(name, frame.sequence) for frame in frames for name in pools[frame.key]]
