"""Traces that are damaged, or are none: what is said of them, and that the rest is read."""

from __future__ import annotations

import contextlib
import os
import shutil
import struct
from typing import TYPE_CHECKING

import numpy as np
import pytest

from laggard.producers.trace import serving
from laggard.producers.trace.analysis import Analysis
from laggard.producers.trace.ctf.streams import FOREVER_NS, unwrapped
from laggard.producers.trace.ctf.tsdl import parse_metadata
from laggard.producers.trace.errors import TraceError
from laggard.producers.trace.events import Kind
from laggard.producers.trace.reading import open_trace
from tests.producers.trace.ctf.written import Packet, Written, everything

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

START = 1_000_000_000


def switches(count: int, *, begin: int = START, step: int = 1000) -> list[tuple[int, str, dict[str, object]]]:
    return [(begin + index * step, "sched_switch", {"prev_tid": 1, "next_tid": 2}) for index in range(count)]


def instead(content: bytes) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        shutil.rmtree(folder)
        folder.write_bytes(content)

    return change


def metadata(content: bytes) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / "metadata").write_bytes(content)

    return change


def no_metadata(folder: Path) -> None:
    (folder / "metadata").unlink()


def programs_only(folder: Path) -> None:
    Written({0: [Packet([(START, "php:request_start", {"path": b"/"})])]}).write(folder)


def no_streams(folder: Path) -> None:
    for path in folder.glob("channel*"):
        path.unlink()


def empty_streams(folder: Path) -> None:
    for path in folder.glob("channel*"):
        path.write_bytes(b"")


def cut_metadata(folder: Path) -> None:
    content = everything(in_packets=False).metadata()
    (folder / "metadata").write_bytes(content[: content.index(b"packet_context") + 200])


def other_packets(folder: Path) -> None:
    content = bytearray((folder / "metadata").read_bytes())
    content[24:28] = bytes(4)
    (folder / "metadata").write_bytes(content)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (shutil.rmtree, ": cannot be read: No such file or directory"),
        (instead(b"hello"), ": expected a trace's folder, got a file"),
        (
            instead(b"PERFILE2" + bytes(100)),
            ": expected a trace's folder, got a recording of perf: `perf data convert --to-ctf FOLDER -i FILE",
        ),
        (
            instead(b"\x17\x08Dtracing6\0"),
            ": expected a trace's folder, got a recording of trace-cmd, which is not supported: record with",
        ),
        (no_metadata, ": found no trace: expected `metadata` (CTF) or `recording.json`"),
        (metadata(b""), "/metadata: expected metadata of CTF 1.8 (a text in TSDL), got an empty file"),
        (metadata(bytes(range(256))), "/metadata: expected metadata of CTF 1.8 (a text in TSDL), got something else"),
        (
            metadata(b'[{"type": "preamble", "version": 2}]'),
            "/metadata: expected metadata of CTF 1.8, got JSON (CTF 2): record with CTF 1.8",
        ),
        (metadata(b"trace {\n\tmajor = 2;\n};\n"), "/metadata: expected CTF 1.8, got version 2"),
        (metadata(b"trace {\n\tmajor = 1;\n};\n"), "/metadata: found no stream and no event"),
        (
            metadata(b"trace {\n};\nstream {\n\tevent.header := struct missing;\n};\n"),
            "/metadata:4: expected a declared struct, got 'missing'",
        ),
        (metadata(b"trace {\n\tx := uint99_t;\n};\n"), "/metadata:2: expected a declared type, got 'uint99_t'"),
        (metadata(b"trace {\n\t\x01\n};\n"), "/metadata:2: expected a word of TSDL, got '\\x01\\n};\\n'"),
        (metadata(b"trace {\n};\n" + b"typealias struct { struct { " * 70), "/metadata:3: "),
        (metadata(b"trace {\n};\nclock {\n\tfreq = -1;\n};\n"), "/metadata:5: expected a clock of 1 to 10^12 Hz"),
        (
            metadata(b"trace {\n};\nclock {\n\tfreq = 1%s;\n};\n" % (b"0" * 400)),
            "/metadata:5: expected a clock of 1 to 10^12 Hz",
        ),
        (
            metadata(b"trace {\n};\nclock {\n\toffset = 1%s;\n};\n" % (b"0" * 400)),
            "/metadata:5: expected a clock of 1 to 10^12",
        ),
        (cut_metadata, "/metadata:63: unexpected end of the metadata"),
        (other_packets, "/metadata: found no packet of metadata at byte 0"),
        (
            programs_only,
            ": the trace has no kernel event sched_switch, which shows where requests",
        ),
        (no_streams, ": the CTF trace has no events"),
        (empty_streams, ": the CTF trace has no events"),
    ],
)
def test_what_cannot_be_read_says_why(tmp_path, change, expected):
    folder = everything().write(tmp_path / "trace")
    change(folder)

    with pytest.raises(TraceError) as raised:
        list(open_trace(folder))

    assert str(raised.value).removeprefix(str(folder)).startswith(expected)


def test_who_may_not_read_it_is_told_so(tmp_path):
    folder = everything().write(tmp_path / "trace")
    (folder / "metadata").chmod(0)
    mine = os.geteuid()
    if mine == 0:
        tmp_path.chmod(0o700)
        os.seteuid(65534)
    try:
        with pytest.raises(TraceError, match=r"cannot be read: Permission denied$"):
            open_trace(folder)
    finally:
        os.seteuid(mine)


UNKNOWN = 84 + 9 * 60
"""Where the tenth event is."""


@pytest.mark.parametrize(
    ("change", "events", "gap", "expected"),
    [
        (lambda whole, half: whole[:700], 10 + 40, (0, 9000, None), "the file ends within a packet"),
        (
            lambda whole, half: whole[: half + 30],
            *(40 + 40, (0, 39_000, None)),
            "cannot read a packet's header, the rest is skipped: the file ends within it",
        ),
        (lambda whole, half: bytes(8) + whole[8:], 40, None, "is not a CTF stream"),
        (
            lambda whole, half: whole[:half] + bytes(8) + whole[half + 8 :],
            *(40 + 40, (0, 39_000, None), "expected a packet, found other data: the rest is skipped"),
        ),
        (
            lambda whole, half: whole[:20] + struct.pack("<I", 9) + whole[24:],
            *(40, None, "a packet of stream 9, which the metadata does not define: the rest is skipped"),
        ),
        (
            lambda whole, half: whole[: half + 48] + bytes(16) + whole[half + 64 :],
            *(40 + 40, (0, 39_000, None), "a packet is incomplete: the rest is skipped"),
        ),
        (
            lambda whole, half: whole[:UNKNOWN] + bytes([whole[UNKNOWN] | 30]) + whole[UNKNOWN + 1 :],
            *(9 + 40 + 40, (0, 8000, 39_000)),
            "cannot read a packet to its end: unknown event id 30 at byte 624",
        ),
    ],
    ids=[
        *("cut off", "cut off within a header", "another magic", "another magic later", "another stream"),
        *("never finished", "an unknown event"),
    ],
)
def test_what_is_damaged_is_told_and_the_rest_is_read(tmp_path, change, events, gap, expected):
    packets = [Packet(switches(40)), Packet(switches(40, begin=START + 100_000))]
    folder = Written({0: packets, 1: [Packet(switches(40, begin=START + 50_000))]}).write(tmp_path / "trace")
    stream = folder / "channel0_0"
    whole = stream.read_bytes()
    stream.write_bytes(change(whole, len(whole) // 2))

    trace = open_trace(folder)
    rows = np.concatenate([batch.events for batch in trace])

    lost = rows[rows["kind"] == Kind.LOST]
    assert len(rows) - len(lost) == events
    # What follows a gap to the end of the trace is told when it begins.
    found = [
        (int(row["cpu"]), int(row["a"]) - START, None if row["b"] == FOREVER_NS else int(row["b"]) - START)
        for row in lost
    ]
    assert (lost["ts"] == np.where(lost["b"] == FOREVER_NS, lost["a"], lost["b"])).all()
    assert found == ([] if gap is None else [gap])
    assert [warning.rpartition("/")[2] for warning in trace.warnings] == [f"channel0_0: {expected}"]


def test_time_that_runs_backward_stands_still(tmp_path):
    """By 1 us, within a packet and from one to the next: the stock reader stops at the latter."""
    within = switches(10)
    within[5] = (within[4][0] - 1000, *within[5][1:])
    packets = [Packet(within), Packet(switches(10, begin=within[9][0] - 1000))]
    folder = Written({0: packets}).write(tmp_path / "trace")

    trace = open_trace(folder)
    rows = np.concatenate([batch.events for batch in trace])

    assert (rows["ts"] - START).tolist() == [
        *(0, 1000, 2000, 3000, 4000, 4000, 6000, 7000, 8000, 9000),
        *(9000, 9000, 10_000, 11_000, 12_000, 13_000, 14_000, 15_000, 16_000, 17_000),
    ]
    assert [warning.rpartition("/")[2] for warning in trace.warnings] == [
        "channel0_0: time runs backward: later events get the previous time (2 times)"
    ]


@pytest.mark.parametrize("size", [27, 32])
def test_short_times_that_ran_backward_are_not_once_around(size):
    """The recorder wrote only the lowest bits of a time that was less than the one before."""
    low = (1 << size) - 1
    around = 1 << size
    times = np.array([5, 900, 800, around - 9, around + 3, around + 7000, around + 6000], np.int64) + (7 << size)
    raw, bits = times & low, np.full(len(times), size)

    assert unwrapped(raw, bits, int(times[0]), int(times[-2])).tolist() == times.tolist()
    # Where a packet does not say when it ended, less is taken to be once around.
    assert unwrapped(raw, bits, int(times[0]), None)[-1] == times[-1] + 2 * around


def test_short_times_start_anew_at_full_ones():
    times = np.array([10, 1 << 27, (1 << 27) + 5, 9 << 27, (9 << 27) + 1, 10 << 27], np.int64)
    bits = np.array([27, 27, 27, 64, 27, 27])
    raw = np.where(bits == 27, times & ((1 << 27) - 1), times)

    assert unwrapped(raw, bits, 0, int(times[-1])).tolist() == times.tolist()


def test_a_trace_without_one_of_its_parts_is_read(tmp_path):
    """Of two traces one has no metadata that can be read."""
    everything().write(tmp_path / "kernel")
    broken = everything().write(tmp_path / "ust")
    (broken / "metadata").write_bytes(b"")

    trace = open_trace(tmp_path)

    assert sum(len(batch.events) for batch in trace) == 45
    assert (
        trace.warnings[0] == f"{broken / 'metadata'}: expected metadata of CTF 1.8 (a text in TSDL), got an empty file"
    )


def test_wakeups_without_wakings_are_told(tmp_path):
    wakeups: list[tuple[int, str, dict[str, object]]] = [*switches(1), (START + 5, "sched_wakeup", {"tid": 7})]
    folder = Written({0: [Packet(wakeups)]}).write(tmp_path / "trace")

    trace = open_trace(folder)

    assert [int(row["a"]) for batch in trace for row in batch.events] == [2, 7]
    assert trace.warnings == (f"{folder}: sched_waking was not recorded: wakers of threads on other CPUs may be wrong",)


def test_events_of_no_length_do_not_go_on_for_ever(tmp_path):
    folder = tmp_path / "trace"
    folder.mkdir()
    (folder / "metadata").write_text(
        "/* CTF 1.8 */ trace { major = 1; }; stream { id = 0; }; event { name = sched_switch; id = 0; };"
    )
    (folder / "stream").write_bytes(bytes(100))

    trace = open_trace(folder)

    assert [len(batch.events) for batch in trace] == [1]  # that events are missing
    assert trace.warnings[-1] == f"{folder / 'stream'}: cannot read a packet to its end: its events have no length"


@pytest.mark.parametrize("seed", range(20))
def test_noise_in_a_stream_never_stops_the_reader(tmp_path, seed):
    folder = everything().write(tmp_path / "trace")
    random = np.random.default_rng(seed)
    for path in folder.glob("channel*"):
        content = bytearray(path.read_bytes())
        for at in random.integers(84, len(content), 5):
            content[at] = int(random.integers(256))
        path.write_bytes(content)

    rows = np.concatenate([batch.events for batch in open_trace(folder)])

    assert (np.diff(rows["ts"]) >= 0).all()


@pytest.mark.parametrize("seed", range(20))
def test_noise_in_metadata_is_an_error_or_a_trace(seed):
    text = bytearray(everything(in_packets=False).metadata())
    random = np.random.default_rng(seed)
    for at in random.integers(0, len(text), 8):
        text[at] = int(random.integers(32, 127))

    with contextlib.suppress(TraceError):
        assert parse_metadata(text.decode()).streams


def test_requests_that_follow_the_end_of_a_cut_file_are_not_trusted(tmp_path):
    """Of one CPU the second half is missing: who ran there, and woke whom, is not known any more."""
    served: list[tuple[int, str, dict[str, object]]] = []
    for at in range(START, START + 100_000_000, 10_000_000):
        served += [
            (at, "sched_switch", {"prev_tid": 0, "next_tid": 7, "next_comm": b"php-fpm"}),
            (at + 1000, "php:request_start", {"path": b"/"}),
            (at + 500_000, "php:request_exit", {}),
            (at + 600_000, "sched_switch", {"prev_tid": 7, "prev_state": 1, "next_tid": 0}),
        ]
    packets = [Packet(switches(20, begin=START + part * 50_000_000 + 123, step=2_000_000)) for part in range(2)]
    folder = Written({0: [Packet(served)], 1: packets}).write(tmp_path / "trace")
    stream = folder / "channel0_1"
    stream.write_bytes(stream.read_bytes()[:-1000])

    trace = open_trace(folder)
    analysis = Analysis()
    found = [request for batch in trace for request in analysis.feed(batch)] + analysis.finish()

    # What was read of the CPU ends 58 ms after the first request's begin, in the sixth's time.
    assert len(found) == 6
    assert analysis.report.discarded == {serving.LOST_EVENTS: 4}
    assert analysis.report.requests == 6
