"""What was read of names, as events."""

from __future__ import annotations

import socket
import struct

import numpy as np

from laggard.producers.trace.events import EVENT, NO_TEXT, Kind, Texts
from laggard.producers.trace.ftrace.name_program import LONGEST, RECORD
from laggard.producers.trace.ftrace.names import BUFFER_BYTES, FAILED, Names, name_rows, with_failures
from tests.producers.trace.ftrace.programs import TRACES, waiting

OPENAT, CONNECT, STAT, GETSOCKOPT = 257, 42, 4, 55
ADDRESS = struct.pack("=H2s4s8x", socket.AF_INET, b"\x0c\xea", bytes([127, 0, 0, 1]))

Read = tuple[int, int, int, int, bytes, int]  # time, call, result, descriptor, name, length


def told(*reads: Read) -> list[tuple[int, int, int, int, str]]:
    records = np.zeros(len(reads), RECORD)
    for record, (ts, number, result, descriptor, name, length) in zip(records, reads, strict=True):
        record["ts"], record["thread"], record["process"], record["number"] = ts, 5, 4, number
        record["result"], record["descriptor"], record["length"] = result, descriptor, length
        record["name"] = np.void(name.ljust(LONGEST, b"\0"))
    texts = Texts()
    rows = name_rows(records.tobytes(), texts)
    assert set(rows["tid"].tolist()) <= {5}
    return [(int(row["ts"]), int(row["kind"]), int(row["a"]), int(row["b"]), texts[row["text"]]) for row in rows]


def text(ts: int, number: int, result: int, name: bytes) -> Read:
    return ts, number, result, 0, name, len(name) + 1


def test_paths_and_what_they_open() -> None:
    assert told(
        text(30, OPENAT, 7, b"/etc/passwd"),
        text(10, STAT, 0, b"/var/lib/php/sessions/sess_9f86d081884c7d65"),
        text(20, OPENAT, -2, b"/nonexistent"),
    ) == [
        (10, Kind.PATH, 0, 0, "/var/lib/php/sessions/sess_*"),
        (20, Kind.PATH, 0, 0, "/nonexistent"),
        (30, Kind.PATH, 0, 0, "/etc/passwd"),
        (30, Kind.OPENED, 7, 0, "/etc/passwd"),
    ]


def test_addresses() -> None:
    assert told((10, CONNECT, -111, 9, ADDRESS, 16), (20, CONNECT, 0, 9, b"\0" * 16, 16)) == [
        (10, Kind.OPENED, 9, 0, "127.0.0.1:3306")
    ]


def test_what_could_not_be_read() -> None:
    assert told((10, OPENAT, 3, 0, b"", -14), (20, OPENAT, 3, 0, b"\xff\xfe", 3)) == [
        (20, Kind.PATH, 0, 0, "\ufffd\ufffd"),
        (20, Kind.OPENED, 3, 0, "\ufffd\ufffd"),
    ]
    assert told() == []


def test_an_error_is_what_its_call_returns() -> None:
    assert told((10, GETSOCKOPT, 0, 9, struct.pack("<I", 111), 4)) == [(10, FAILED, -111, 0, "")]
    rows = np.zeros(6, EVENT)
    rows["ts"] = np.arange(6)
    rows["text"] = NO_TEXT
    rows["tid"] = [5, 5, 6, 5, 5, 5]
    exits = (Kind.SYSCALL_EXIT,) * 4
    rows["kind"] = [Kind.SYSCALL_ENTER, FAILED, *exits]
    rows["a"][1] = -111
    found = with_failures(rows)
    assert found["ts"].tolist() == [0, 2, 3, 4, 5]
    assert found["b"].tolist() == [0, 0, -111, 0, 0]
    # The call's end may be missing.
    assert with_failures(rows[:2])["ts"].tolist() == [0]
    rows["kind"][3], rows["b"] = Kind.SYSCALL_ENTER, 0
    assert not with_failures(rows)["b"].any()


def test_an_error_finds_its_call_behind_the_events_of_other_threads() -> None:
    rows = np.zeros(10_002, EVENT)
    rows["text"], rows["tid"], rows["kind"] = NO_TEXT, 6, Kind.SYSCALL_EXIT
    rows["tid"][[0, -1]], rows["kind"][0], rows["a"][0] = 5, FAILED, -111
    assert np.flatnonzero(with_failures(rows)["b"]).tolist() == [10_000]


CONNECTS = """
import os, socket
for _ in range(int(word)):
    os.access("/nonexistent", os.F_OK)
with socket.socket(socket.AF_UNIX) as client:
    client.connect_ex("/run/no-such-laggard-socket")
"""


@TRACES
def test_files_do_not_push_out_addresses() -> None:
    """The listen queues need each one, most of all where the reader is late."""
    names = Names()
    try:
        with waiting(CONNECTS) as program:
            program.go(str(2 * BUFFER_BYTES // RECORD.itemsize))
        texts = Texts()
        name_rows(names.take(), texts)
        assert names.dropped > 0
    finally:
        names.close()
    assert "unix:/run/no-such-laggard-socket" in texts.texts
