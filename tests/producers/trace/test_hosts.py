"""Traces of two hosts whose clocks differ: how far apart they are, and requests that go from one to the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laggard.producers.trace.analysis import Analysis
from laggard.producers.trace.clocks import Difference, Packets, difference
from laggard.producers.trace.events import Kind
from laggard.producers.trace.hosts import Hosts
from laggard.producers.trace.reading import open_trace
from tests.producers.trace.ctf.written import OFFSET_NS, Packet, Written, tcp

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

SECOND = 1_000_000_000


def exchanged(
    *, offset_ns: int, drift: float, span_s: float, count: int, seed: int, least_us: float = 40.0
) -> tuple[Packets, Packets, NDArray[np.int64], NDArray[np.int64]]:
    """Packets to and fro, with delays of at least this many microseconds, mostly more.

    Returns:
        The view of each host, and true times as the other host's and as the reference's clock shows them.

    """
    random = np.random.default_rng(seed)
    there = np.sort(random.uniform(0, span_s * SECOND, count))
    back = np.sort(random.uniform(0, span_s * SECOND, count))
    delays = (least_us + random.exponential(150.0, (2, count))) * 1e3

    def other(times: NDArray[np.float64]) -> NDArray[np.int64]:
        return np.rint(times * (1 + drift)).astype(np.int64) + offset_ns

    def own(times: NDArray[np.float64]) -> NDArray[np.int64]:
        return np.rint(times).astype(np.int64)

    one, two = np.arange(count), np.arange(count) + count
    reference = Packets(one, own(there), two, own(back + delays[1]))
    moved = Packets(two, other(back), one, other(there + delays[0]))
    true = np.linspace(0, span_s * SECOND, 50)
    return reference, moved, other(true), own(true)


@given(
    offset_ns=st.integers(-(10**15), 10**15),
    ppm=st.sampled_from([0.0, -80.0, 3.0, 45.0]),
    span_s=st.sampled_from([0.2, 5.0, 600.0]),
    seed=st.integers(0, 1000),
)
def test_the_difference_is_as_good_as_it_says(offset_ns, ppm, span_s, seed):
    reference, other, shown, true = exchanged(
        offset_ns=offset_ns, drift=ppm * 1e-6, span_s=span_s, count=300, seed=seed
    )

    found = difference(reference, other)

    assert found is not None
    assert found.packets == 600
    worst = np.abs(found.corrected(shown) - true).max()
    assert worst <= found.error_ns + 2
    # Half of what the fastest packets of both directions took, and some for the drift.
    assert found.error_ns <= 120_000


def test_without_drift_the_error_is_half_of_the_fastest_round_trip():
    packets = np.array([1]), np.array([1000]), np.array([2]), np.array([9000])
    other = np.array([2]), np.array([500_000 + 6000]), np.array([1]), np.array([500_000 + 3000])

    found = difference(Packets(*packets), Packets(*other))

    # 1 left at 1,000 and came at 503,000; 2 left at 506,000 and came at 9,000.
    assert found == Difference(503_000, -499_500.0, 0.0, 2500.0, 2)


@pytest.mark.parametrize("direction", ["there", "back"])
def test_packets_one_way_bound_it_on_one_side_only(direction):
    none = np.zeros(0, np.int64)
    sent = Packets(np.array([1, 2]), np.array([1000, 2000]), none, none)
    received = Packets(none, none, np.array([1, 2]), np.array([7000, 7500]))

    found = difference(sent, received) if direction == "there" else difference(received, sent)

    assert found is not None
    assert (found.offset_ns, found.error_ns) == (-5500.0 if direction == "there" else 5500.0, np.inf)


def test_a_packet_that_was_sent_twice_says_nothing():
    none = np.zeros(0, np.int64)
    sent = Packets(np.array([1, 1]), np.array([1000, 2000]), none, none)

    assert difference(sent, Packets(none, none, np.array([1]), np.array([3000]))) is None


WEB, DATABASE = ("10.0.0.1", 40_000), ("10.0.0.2", 3306)


def requests(folder: Path, *, ahead_ns: int, drift: float, packets: bool = True, boot: str = "other") -> None:
    """Sixty requests to web-1, each of which waits for db-1, whose clock is elsewhere: 2 ms there, 0.1 ms each way."""
    web: list[tuple[int, str, dict[str, Any]]] = []
    database: list[tuple[int, str, dict[str, Any]]] = []

    def switched(events: list[tuple[int, str, dict[str, Any]]], ts: int, before: int, after: int, name: bytes) -> None:
        fields = {"prev_tid": before, "prev_state": 0 if before == 0 else 1, "next_tid": after, "next_comm": name}
        events.append((ts, "sched_switch", fields))

    def arrives(events: list[tuple[int, str, dict[str, Any]]], ts: int, headers: bytes, tid: int) -> None:
        events.append((ts, "irq_softirq_entry", {"vec": 3}))
        if packets:
            events.append((ts + 1000, "net_if_receive_skb", {"name": b"eth0", "network_header": headers}))
        events.append((ts + 2000, "sched_waking", {"comm": b"", "tid": tid}))
        events.append((ts + 3000, "irq_softirq_exit", {"vec": 3}))

    for index in range(60):
        at = SECOND + index * 50_000_000
        query = tcp(WEB, DATABASE, index * 100, length=80, flags=0x18)
        answer = tcp(DATABASE, WEB, index * 1000, length=900, flags=0x18)
        switched(web, at, 0, 10, b"php-fpm")
        web.append((at + 10_000, "php:request_start", {"path": b"/cart/4711"}))
        web.append((at + 100_000, "syscall_entry_read", {"fd": 5}))
        if packets:
            web.append((at + 110_000, "net_dev_queue", {"name": b"eth0", "network_header": query}))
        switched(web, at + 120_000, 10, 0, b"swapper/0")
        arrives(database, at + 210_000, query, 20)
        switched(database, at + 215_000, 0, 20, b"mysqld")
        database.append((at + 2_200_000, "syscall_entry_read", {"fd": 7}))
        if packets:
            database.append((at + 2_215_000, "net_dev_queue", {"name": b"eth0", "network_header": answer}))
        switched(database, at + 2_220_000, 20, 0, b"swapper/0")
        arrives(web, at + 2_315_000, answer, 10)
        switched(web, at + 2_320_000, 0, 10, b"php-fpm")
        web.append((at + 2_330_000, "syscall_exit_read", {"ret": 900}))
        web.append((at + 2_400_000, "php:request_exit", {"status": 200}))
        switched(web, at + 2_410_000, 10, 0, b"swapper/0")
    elsewhere = [(round(ts * (1 + drift)) + ahead_ns, name, fields) for ts, name, fields in database]
    Written({0: [Packet(web)]}).write(folder / "one" / "kernel")
    Written({0: [Packet(elsewhere)]}, host="db-1", boot=boot, offset_ns=OFFSET_NS).write(folder / "two" / "kernel")


@pytest.mark.parametrize(("ahead_ns", "drift"), [(0, 0.0), (7 * SECOND, 4e-5), (123_456_789, -2e-5)])
def test_a_request_is_followed_to_another_host(tmp_path, ahead_ns, drift):
    requests(tmp_path, ahead_ns=ahead_ns, drift=drift)

    trace = open_trace(tmp_path)
    analysis = Analysis(clock_offset_s=trace.wall_offset_s)
    found = [request for batch in trace for request in analysis.feed(batch)] + analysis.finish()

    assert isinstance(trace, Hosts)
    known = trace.differences["web-1"]
    assert known is not None
    assert known.packets == 120
    assert known.error_ns <= 150_000
    assert list(trace.warnings) == []
    assert len(found) == 60
    for request in found:
        assert (request.service, request.name, request.host) == ("php", "/cart/*", "web-1")
        assert request.threads == ("php-fpm[10]", "db-1/mysqld[20]")
        assert sum(round(time * 1e9) for time in request.critical_s.values()) == round(request.duration_s * 1e9)
        assert request.duration_s == pytest.approx(2.39e-3, rel=1e-4)
        # Seen from its own thread it waits; on the critical path the database works.
        assert request.times_s["RU"] < 0.3e-3
        assert 1.8e-3 < request.critical_s["RU"] < 2.4e-3


def test_hosts_without_packets_are_compared_by_the_time_of_day(tmp_path):
    requests(tmp_path, ahead_ns=0, drift=0.0, packets=False)

    trace = open_trace(tmp_path)
    rows = np.concatenate([batch.events for batch in trace])

    assert (np.diff(rows["ts"]) >= 0).all()
    (warning,) = trace.warnings
    assert warning == (
        "web-1: no packets between it and db-1 were recorded by both: their clocks are not aligned and may"
        " differ by milliseconds"
    )


def test_each_event_says_its_host(tmp_path):
    requests(tmp_path, ahead_ns=5 * SECOND, drift=0.0)

    counted: dict[str, int] = {}
    names = set()
    for batch in open_trace(tmp_path):
        for row in batch.events:
            host = batch.texts[row["host"]]
            counted[host] = counted.get(host, 0) + 1
            if row["kind"] == Kind.SWITCH:
                names.add((host, batch.texts[row["text"]]))

    assert counted == {"web-1": 60 * 13, "db-1": 60 * 8}
    assert names == {("web-1", "php-fpm"), ("web-1", "swapper/0"), ("db-1", "mysqld"), ("db-1", "swapper/0")}
