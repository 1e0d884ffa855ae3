"""Re-keying: which applications a host serves, how rows become those of names, and that each frame is there once."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laggard.pipeline.core.bus import Incoming, Partition
from laggard.pipeline.core.engine.publishing import outgoing
from laggard.pipeline.core.engine.stage import REPLAY_HEADER, DeadLetter, Rekeyed
from laggard.pipeline.core.records import Decoder, Frame, Mark, encode, make_layout
from laggard.pipeline.core.topics import APPLICATIONS, COUNTERS, Topics
from laggard.pipeline.methods.applications.serving import Rows, ServedByFrames, ServedBySettings, Serving
from tests.pipeline.ending import rekeyed
from tests.pipeline.methods.applications.records import NAN, T0, measured

if TYPE_CHECKING:
    from pathlib import Path

TOPICS = Topics("t.")
INPUT = Partition(TOPICS.name(COUNTERS), 0)
SERVED = ServedBySettings({"shop": "web-* db-1", "blog": "web-1"}, r"(?P<application>[a-z]+)-\d+")


@pytest.mark.parametrize(
    ("served", "host", "applications"),
    [
        (SERVED, "web-1", ("shop", "blog", "web")),
        (SERVED, "web-2", ("shop", "web")),
        (SERVED, "db-1", ("shop", "db")),
        (SERVED, "cache", ()),
        (SERVED, "", ()),
        (ServedBySettings({}, r"(?P<application>[a-z]*)-\d+"), "-1", ()),
        (ServedBySettings({"web": "web-1"}, r"(?P<application>[a-z]+)-\d+"), "web-1", ("web",)),
    ],
)
def test_which_applications_a_host_serves(served: ServedBySettings, host: str, applications: tuple[str, ...]) -> None:
    assert tuple(served(host)) == applications


def test_of_recorded_data_the_applications_own_frames_say_it() -> None:
    served = ServedByFrames()
    assert served("web-1") == []
    for application, hosts in (("shop", ("web-1",)), ("all", ())):
        layout = make_layout([application], [application], ["x"])
        served.learn(Frame("application", application, "performance", 1.0, -1, layout, np.ones((1, 1)), hosts))
    assert served("web-1") == ["shop", "all"]
    assert served("db-1") == ["all"]


def host_frame(ts: float = 0.0, host: str = "web-1", scope: str = "process", sequence: int = 7) -> Frame:
    rows = ("nginx[1@1]", "cron[2@1]", "nginx[3@1]", "nginx[4@1]")
    features = ("cpu_user_ratio", "cpus", "io_pressure_ratio")
    values = np.array([[0.1, 2.0, 0.5], [0.7, 2.0, NAN], [0.2, 2.0, 0.25], [NAN, 2.0, NAN]])
    layout = make_layout(rows, [row.partition("[")[0] for row in rows], features)
    return Frame("host", host, scope, T0 + ts, sequence, layout, values)


def test_processes_of_one_name_are_one_row_and_the_hosts_own_is_called_like_the_host() -> None:
    frame = Rows().rekeyed(host_frame(), "shop")
    assert (frame.keyed_by, frame.key, frame.scope, frame.hosts) == ("application", "shop", "process", ("web-1",))
    assert (frame.ts, frame.sequence) == (T0, 7)
    assert frame.layout.rows == ("web-1/nginx", "web-1/cron")
    assert frame.layout.names == ("nginx", "cron")
    # What they share, such as the pressure of their control group, is no sum.
    np.testing.assert_allclose(frame.values, [[0.3, 2.0, 0.5], [0.7, 2.0, NAN]])
    Decoder().decode(encode(frame), "here")
    layout = make_layout(["host"], ["host"], ["cpu_busy_ratio"])
    frame = Rows().rekeyed(Frame("host", "web-1", "host", T0, 1, layout, np.array([[0.5]])), "shop")
    assert (frame.layout.rows, frame.values.tolist()) == (("web-1",), [[0.5]])


def test_kernel_threads_have_no_row() -> None:
    """They have no address space; nor does a zombie, whose name stays while another process has it."""
    names, rows = ("kworker/0", "nginx", "nginx", "cron"), Rows()
    layout = make_layout([f"{name}[{at}@1]" for at, name in enumerate(names)], names, ("x", "memory_virtual_bytes"))

    def shown(*sizes: float) -> dict[str, list[float]]:
        values = np.array([[1.0, size] for size in sizes])
        frame = rows.rekeyed(Frame("host", "web-1", "process", T0, 7, layout, values), "shop")
        return dict(zip(frame.layout.rows, frame.values.tolist(), strict=True))

    assert shown(0.0, 4e6, 5e6, 1e6) == {"web-1/nginx": [2.0, 9e6], "web-1/cron": [1.0, 1e6]}
    assert shown(0.0, 4e6, 0.0, 0.0) == {"web-1/nginx": [1.0, 4e6]}
    assert shown(0.0, 0.0, 0.0, 0.0) == {}
    assert list(shown(0.0, 4e6, 5e6, NAN)) == ["web-1/nginx", "web-1/cron"]


@given(st.integers(0, 1 << 32))
def test_sums_are_those_of_the_plainest_way(seed: int) -> None:
    """NaN only where all are; the names are looked at anew where they change."""
    draw, rows = random.Random(seed), Rows()
    for number in range(4):
        names = [draw.choice("abc") for _ in range(draw.randrange(6))]
        layout = make_layout([f"{name}[{at}]" for at, name in enumerate(names)], names, ["x", "y"])
        values = np.array([[draw.choice([NAN, draw.random()]) for _ in "xy"] for _ in names]).reshape(len(names), 2)
        frame = rows.rekeyed(Frame("host", "h", "process", T0 + number, -1, layout, values), "shop")
        assert frame.layout.rows == tuple(f"h/{name}" for name in dict.fromkeys(names))
        for row, found in zip(dict.fromkeys(names), frame.values, strict=True):
            mine = values[[each == row for each in names]]
            expected = [NAN if np.isnan(column).all() else np.nansum(column) for column in mine.T]
            np.testing.assert_allclose(found, expected)


# The stage.


def taken(record: Incoming) -> list[object]:
    task = Serving(SERVED).task(INPUT)
    task.process(record)
    assert task.position == record.offset + 1
    return list(task.outputs)


def incoming(frame: Frame, **headers: bytes) -> Incoming:
    return Incoming(INPUT, 3, frame.key, encode(frame), frame.ts, tuple(headers.items()))


def test_what_serves_goes_to_each_application_and_all_else_nowhere() -> None:
    found = taken(incoming(host_frame()))
    assert [each.frame.key for each in found if isinstance(each, Rekeyed)] == ["shop", "blog", "web"]
    assert taken(incoming(host_frame(host="cache"))) == []
    assert taken(incoming(host_frame(scope="agent"))) == []
    assert taken(incoming(measured(0))) == []
    assert taken(Incoming(INPUT, 3, "web-1", encode(Mark("web-1", T0)), T0)) == []
    assert taken(Incoming(INPUT, 3, "web-1", b"junk", T0)) == [], "an operator on the same topic tells it"
    # Nor do names too long for a frame.
    layout = make_layout(["x" * 1020], ["x" * 1020], ["y"])
    (letter,) = taken(incoming(Frame("host", "db-1", "process", T0, 1, layout, np.ones((1, 1)))))
    assert isinstance(letter, DeadLetter)
    assert "not re-keyed: field 'rows[0]': expected text of 1 to 1,024" in letter.reason


def test_what_was_recorded_earlier_stays_so() -> None:
    (rekeyed,) = taken(incoming(host_frame(host="db-1", ts=5.0), **{REPLAY_HEADER: b""}))[:1]
    assert isinstance(rekeyed, Rekeyed)
    sent = outgoing(rekeyed, TOPICS)
    assert (sent.topic, sent.key, sent.ts) == ("t.applications", "shop", T0 + 5.0)
    assert [name for name, _ in sent.headers] == [REPLAY_HEADER]


@pytest.mark.slow
def test_each_frame_is_there_once_whoever_ends_in_between(tmp_path: Path) -> None:
    draw = random.Random(5)
    frames = [host_frame(float(n), draw.choice(["web-1", "db-1", "cache"]), sequence=n) for n in range(80)]
    found = rekeyed(tmp_path, Serving(SERVED), TOPICS, frames, APPLICATIONS)
    assert found == [(name, frame.sequence) for frame in frames for name in SERVED(frame.key)]
