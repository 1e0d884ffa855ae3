"""The reader of CTF against babeltrace2, on what LTTng and perf wrote, and on what LTTng's kernel tracer would."""

from __future__ import annotations

import gzip
import re
import tarfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from laggard.producers.trace.analysis import Analysis
from laggard.producers.trace.ctf.metadata import read_metadata
from laggard.producers.trace.ctf.streams import Stream
from laggard.producers.trace.ctf.trace import CtfTrace
from laggard.producers.trace.ctf.translation import Boundary
from laggard.producers.trace.ctf.types import Array
from laggard.producers.trace.events import Events, Kind
from laggard.producers.trace.problems import Problems
from laggard.producers.trace.reading import open_trace
from tests.producers.trace.ctf.written import OFFSET_NS, Packet, Written, everything

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SENT = 1_595_092_101_129_721_371
"""The id of a packet with no data from 10.0.0.1:3306 to 10.0.0.2:5: part of no file, so it may change."""

DATA = Path(__file__).parent / "data"


def unpacked(name: str, folder: Path) -> Path:
    with tarfile.open(DATA / f"{name}.tar.xz") as archive:
        # Python 3.11 has it since 3.11.4 only.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder)
    return next(folder.iterdir())


def opened(folder: Path, boundaries: Sequence[Boundary] = ()) -> CtfTrace:
    """Also a trace of programs only, in which requests cannot be followed."""
    return CtfTrace({path.parent: read_metadata(path) for path in sorted(folder.rglob("metadata"))}, boundaries)


LINE = re.compile(r"\[(?P<cycles>\d+)\] (?:\S+ )?(?P<name>\S+): \{ cpu_id = (?P<cpu>\d+) \}, (?P<fields>.*)")
FIELD = re.compile(r'(?P<name>\w+) = (?:(?P<number>-?\d+)|"(?P<text>[^"]*)")')


class Printed(NamedTuple):
    cycles: int
    name: str
    cpu: int
    fields: dict[str, Any]


def printed(text: str) -> list[Printed]:
    """Of `babeltrace2 --no-delta --clock-cycles`: all events, with those of their fields that are numbers or texts."""
    found = []
    for line in text.splitlines():
        match = LINE.fullmatch(line)
        assert match, line
        fields = {
            each["name"]: each["text"] if each["number"] is None else int(each["number"])
            for each in FIELD.finditer(match["fields"])
            if each["name"] != "container"  # of an enumeration, beside its label
        }
        found.append(Printed(int(match["cycles"]), match["name"], int(match["cpu"]), fields))
    return found


def decoded(folder: Path) -> list[Printed]:
    """The same, as laggard reads the files; sorted by time."""
    metadata = read_metadata(folder / "metadata")
    found: list[Printed] = []
    for path in sorted(folder.iterdir()):
        if path.name != "metadata" and path.is_file():
            found += _events(Stream(path, metadata, {}, Problems()))
    return sorted(found, key=lambda event: event.cycles)


def _events(stream: Stream) -> Iterator[Printed]:
    while stream.begins_ns is not None:
        packet = stream.read()
        for group in packet.groups:
            ts = packet.ts[group.at].tolist()
            values: list[dict[str, Any]] = [{} for _ in ts]
            for name, column in group.layout.columns.items():
                if name.startswith("header."):
                    continue
                if isinstance(column.kind, Array):
                    texts = packet.window.texts(group.positions, column.bit >> 3, int(column.kind.length))
                    found: list[Any] = [text.decode() for text in texts]
                else:
                    found = packet.window.integers(group.positions, column.bit, column.kind).tolist()
                    if not column.kind.signed:
                        found = [value % (1 << 64) for value in found]
                for each, value in zip(values, found, strict=True):
                    each[name.removeprefix("context.")] = value
            for each, scope in zip(values, group.walked, strict=False):
                each.update(
                    {
                        name: value.decode() if isinstance(value, bytes) else value
                        for name, value in scope.items()
                        if isinstance(value, int | float) or name in _TEXTS
                    }
                )
            for when, fields in zip(ts, values, strict=True):
                yield Printed(when, group.event.name, packet.cpu, fields)


_TEXTS = {"filename", "name", "diskname", "path", "prev_comm", "next_comm", "comm", "parent_comm", "child_comm"}


def everything_of(path: Path) -> tuple[list[Events], list[tuple[Kind, int, int, str]]]:
    """The batches, and of each event kind, thread, `a` and text."""
    batches = list(opened(path))
    rows = [
        (Kind(row["kind"]), int(row["tid"]), int(row["a"]), batch.texts[row["text"]])
        for batch in batches
        for row in batch.events
    ]
    return batches, rows


@pytest.mark.parametrize(
    "options",
    [{}, {"header": "large"}, {"natural": True}, {"natural": True, "header": "large"}, {"in_packets": False}],
    ids=["compact", "large", "aligned", "aligned and large", "plain metadata"],
)
def test_every_field_is_as_babeltrace2_reads_it(tmp_path, options):
    folder = everything(**options).write(tmp_path / "trace")
    expected = printed(gzip.decompress((DATA / "babeltrace2.txt.gz").read_bytes()).decode())

    found = decoded(folder)

    assert [each[:3] for each in found] == [each[:3] for each in expected]
    for ours, theirs in zip(found, expected, strict=True):
        assert {name: ours.fields.get(name) for name in theirs.fields} == theirs.fields, theirs.name


def test_a_clock_of_another_frequency_is_in_nanoseconds(tmp_path):
    plain = decoded(everything().write(tmp_path / "plain"))
    fast = decoded(everything(frequency=2_400_000_000).write(tmp_path / "fast"))

    assert [each.name for each in fast] == [each.name for each in plain]
    assert all(0 <= one.cycles - two.cycles <= 1 for one, two in zip(plain, fast, strict=True))


def test_events_say_what_happened(tmp_path):
    folder = everything().write(tmp_path / "trace")

    batches, rows = everything_of(folder)

    assert [row for row in rows if row[0] is not Kind.LOST] == [
        (Kind.SWITCH, 31, 32, "redis"),
        (Kind.SYSCALL_ENTER, 32, 0, "read"),
        (Kind.NAMED, 11, 12, "php-fpm"),
        (Kind.OPENED, 12, 3, "/run/php.sock"),
        (Kind.SWITCH, 11, 12, "php-fpm"),
        (Kind.WAKE, 12, 13, ""),
        # `sched_wakeup` tells nothing more than `sched_waking`, and is skipped.
        (Kind.WAKE, 12, 0, ""),
        (Kind.FORK, 12, 21, "php-fpm"),
        (Kind.EXEC, 12, 0, "/usr/bin/convert"),
        (Kind.SYSCALL_ENTER, 12, 257, "openat"),
        (Kind.PATH, 12, 0, "/srv/index.php"),
        (Kind.OPENED, 12, -1, "/srv/index.php"),
        (Kind.SYSCALL_EXIT, 12, 257, "openat"),
        (Kind.SYSCALL_ENTER, 12, 0, "read"),
        (Kind.SYSCALL_EXIT, 12, 0, "read"),
        (Kind.SYSCALL_ENTER, 12, 202, "futex"),
        (Kind.SYSCALL_EXIT, 12, 202, "futex"),
        (Kind.SYSCALL_ENTER, 12, 5, "fstat"),
        (Kind.SYSCALL_ENTER, 12, 42, "connect"),
        (Kind.OPENED, 12, 8, "127.0.0.1:3306"),
        (Kind.SYSCALL_EXIT, 12, 42, "connect"),
        (Kind.SYSCALL_EXIT, 12, 288, "accept4"),
        (Kind.OPENED, 12, 9, "10.0.0.7:*"),
        (Kind.SYSCALL_ENTER, 12, 231, "exit_group"),
        # Two of the old names: `sys_exit_group` is a system call, not the end of one.
        (Kind.SYSCALL_ENTER, 12, 2, "open"),
        (Kind.PATH, 12, 0, ""),
        (Kind.OPENED, 12, -1, ""),
        (Kind.SYSCALL_ENTER, 12, 231, "exit_group"),
        (Kind.SYSCALL_EXIT, 12, -1, ""),
        (Kind.IRQ_ENTER, 12, 27, "virtio0-req.0"),
        (Kind.IRQ_EXIT, 12, 27, ""),
        (Kind.SOFTIRQ_ENTER, 12, 4, ""),
        (Kind.SOFTIRQ_EXIT, 12, 4, ""),
        (Kind.SOFTIRQ_ENTER, 12, 3, ""),
        (Kind.TIMER_ENTER, 12, 0, ""),
        (Kind.TIMER_EXIT, 12, 0, ""),
        (Kind.TIMER_ENTER, 12, 0, ""),
        (Kind.IRQ_ENTER, 12, 236, "local_timer"),
        (Kind.IRQ_EXIT, 12, 0, "local_timer"),
        (Kind.BLOCK_ISSUE, 12, 254 << 20, "vda"),
        (Kind.BLOCK_COMPLETE, 12, 254 << 20, "vda"),
        (Kind.NET_SEND, 12, SENT, ""),
        (Kind.EXIT, 12, 0, ""),
    ]
    assert batches[0].events["ts"][0] == 5_000_000_000_223


def test_the_clock_says_when_it_was(tmp_path):
    trace = open_trace(everything().write(tmp_path / "trace"))

    assert trace.host == "web-1"
    assert trace.wall_offset_s == OFFSET_NS / 1e9


def test_what_was_discarded_is_a_gap(tmp_path):
    trace = open_trace(everything().write(tmp_path / "trace"))

    lost = [row for batch in trace for row in batch.events if row["kind"] == Kind.LOST]

    # babeltrace2 says: 2 packets between ...40.000002123 and ...40.000005123, 4 events between ...41.350000171 and
    # ...43.190000213.
    assert [(int(row["cpu"]), int(row["a"]), int(row["b"]), int(row["c"]), int(row["ts"])) for row in lost] == [
        (1, 5_000_000_002_123, 5_000_000_005_123, 0, 5_000_000_005_123),
        (0, 5_001_350_000_171, 5_003_190_000_213, 4, 5_003_190_000_213),
    ]
    assert [warning.rpartition("/")[2] for warning in trace.warnings] == [
        "channel0_1: packets are missing (2 times)",
        "channel0_0: the recorder discarded events (4 times)",
    ]


def test_what_lttng_discarded_in_programs(tmp_path):
    """A real recording of LTTng's user space, with buffers that were too small."""
    folder = unpacked("discarded", tmp_path)

    batches, _ = everything_of(folder)
    counted = Counter(Kind(kind) for batch in batches for kind in batch.events["kind"].tolist())

    # babeltrace2 prints 2,100 of request_start, 2,104 of request_exit, and 692 + 27 + 139 + 2,438 discarded.
    assert counted == {Kind.BEGIN: 2100, Kind.END: 2104, Kind.LOST: 4}
    assert [int(row["c"]) for batch in batches for row in batch.events if row["kind"] == Kind.LOST] == [
        692,
        27,
        139,
        2438,
    ]


def test_what_was_discarded_is_counted_once_over_rotations(tmp_path):
    """A real recording of LTTng's user space in three chunks: each stream goes on counting where it was."""
    folder = unpacked("rotated", tmp_path)

    batches, _ = everything_of(folder)
    lost = [row for batch in batches for row in batch.events if row["kind"] == Kind.LOST]

    # As babeltrace2 says.
    assert [(int(row["cpu"]), int(row["c"])) for row in lost] == [(0, 1), (0, 553), (1, 1), (1, 553)]
    assert sum(len(batch.events) for batch in batches) == 484


def test_texts_that_programs_write_bound_requests(tmp_path):
    """Real ones, by `lttng_ust_tracef()` in C and by logging in Python; other texts are skipped."""
    _, rows = everything_of(unpacked("markers", tmp_path))

    expected = []
    for tid, name, requests in ((11626, "shop\tGET /cart/*", 3), (11629, "shop\tGET /py", 2)):
        for request in range(requests):
            expected += [(Kind.BEGIN, tid, request, name), (Kind.END, tid, request, "")]
    assert rows == expected


def test_events_of_programs_bound_requests(tmp_path):
    """Those of PHP's extension, and those that are named."""
    asked: dict[str, object] = {"path": b"/srv/cart.php", "uri": b"/cart/4711?x=1", "method": b"GET"}
    events: list[tuple[int, str, dict[str, object]]] = [
        (1000, "ust_php:request_entry", asked),
        (2000, "ust_php:request_exit", asked),
        (3000, "shop:checkout_begin", {"route": b"/checkout"}),
        (4000, "shop:checkout_end", {}),
    ]
    folder = Written({0: [Packet(events)]}).write(tmp_path / "trace")
    own = Boundary("shop:checkout_begin", "shop:checkout_end", "shop")

    told = [
        [(Kind(row["kind"]), batch.texts[row["text"]]) for batch in opened(folder, each) for row in batch.events]
        for each in ([], [own])
    ]

    assert told[0] == [(Kind.BEGIN, "php\tGET /cart/*"), (Kind.END, "")]
    assert told[1] == [*told[0], (Kind.BEGIN, "shop\t/checkout"), (Kind.END, "")]


def test_programs_and_kernel_recorded_by_two_tools_are_one_trace(tmp_path):
    """LTTng's user space, and perf with `-k mono`: eight requests that each sleep for 1.5 ms."""
    trace = open_trace(unpacked("perf_and_lttng", tmp_path))
    analysis = Analysis(host=trace.host, clock_offset_s=trace.wall_offset_s)

    requests = [request for batch in trace for request in analysis.feed(batch)] + analysis.finish()

    assert [request.name for request in requests] == ["/index.php", "/cart"] * 4
    for request in requests:
        assert (request.service, request.host) == ("php", "vm")
        assert sum(round(time * 1e9) for time in request.times_s.values()) == round(request.duration_s * 1e9)
        assert 1.5e-3 <= request.times_s["BS"] <= request.duration_s <= 2e-3
        assert "clock_nanosleep" in request.syscalls
        assert request.threads[0].startswith("app[")
        assert 1_795_000_000 < request.ts < 1_796_000_000
    assert [warning.rpartition("/")[2] for warning in trace.warnings] == [
        "perf: its clock is not the time of day: taken as the monotonic clock"
    ]
    assert analysis.report.warnings[1:] == ()
