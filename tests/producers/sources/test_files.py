import gzip
import io
import os
from contextlib import ExitStack

import pytest
import zstandard

from laggard.producers.sources import files
from laggard.producers.sources.files import Line, Recording, TooLong, UnreadableError, merged


def texts(recording):
    return [each.text for each in recording.lines() if isinstance(each, Line)]


def content(path):
    with Recording(str(path)) as recording:
        return texts(recording)


def zst(data):
    return zstandard.ZstdCompressor().compress(data)


COMPRESSIONS = pytest.mark.parametrize("compress", [bytes, gzip.compress, zst], ids=["plain", "gzip", "zstd"])


@COMPRESSIONS
def test_lines_come_out_whatever_the_compression(tmp_path, compress):
    path = tmp_path / "recording"
    path.write_bytes(compress(b"one\n\n  \r\ntwo\r\nthree"))
    with Recording(str(path)) as recording:
        assert list(recording.lines()) == [Line(1, b"one"), Line(4, b"two\r"), Line(5, b"three")]
        assert recording.bytes_read == recording.size == path.stat().st_size


@COMPRESSIONS
@pytest.mark.parametrize(
    ("data", "lines"),
    [(b"", []), (b"\n", []), (b"\n\n\n", []), (b"\xef\xbb\xbf1\n", [b"1"])],
    ids=["nothing", "a blank line", "blank lines", "a byte order mark"],
)
def test_what_is_no_content_gives_nothing(tmp_path, compress, data, lines):
    path = tmp_path / "recording"
    path.write_bytes(compress(data))
    assert content(path) == lines


@COMPRESSIONS
def test_many_chunks_and_members_are_one_recording(tmp_path, compress):
    lines = [os.urandom(40).hex().encode() * (1 + number % 40) for number in range(4000)]
    data = b"\n".join(lines)
    half = len(data) // 2 + 7
    path = tmp_path / "recording"
    path.write_bytes(compress(data[:half]) + compress(data[half:]))
    assert content(path) == lines


@pytest.mark.parametrize("compress", [gzip.compress, zst])
def test_a_file_that_is_cut_off_gives_what_is_there_and_then_says_so(tmp_path, compress):
    path = tmp_path / "day.jsonl.z"
    path.write_bytes(compress(b"\n".join(os.urandom(20).hex().encode() for _ in range(5000)))[:-2000])
    given: list[object] = []
    with Recording(str(path)) as recording, pytest.raises(UnreadableError, match=r"day\.jsonl\.z:\d+: .* is truncated"):
        given.extend(recording.lines())
    assert len(given) > (1000 if compress is gzip.compress else -1)


@pytest.mark.parametrize("compress", [gzip.compress, zst])
def test_damage_is_an_error_that_names_the_place(tmp_path, compress):
    damaged = bytearray(compress(b"\n".join(os.urandom(20).hex().encode() for _ in range(5000))))
    damaged[len(damaged) // 2 :] = b"\xff" * (len(damaged) - len(damaged) // 2)
    path = tmp_path / "day.z"
    path.write_bytes(damaged)
    with Recording(str(path)) as recording, pytest.raises(UnreadableError, match=r"day\.z:\d+: cannot be read further"):
        list(recording.lines())


def test_a_line_that_is_too_long_is_named_and_the_rest_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LONGEST_LINE", 100_000)
    path = tmp_path / "day"
    path.write_bytes(b"a\n" + b"x" * 300_000 + b"\nb\n" + b"y" * 100_001)
    with Recording(str(path)) as recording:
        assert list(recording.lines()) == [
            Line(1, b"a"),
            TooLong(2, 300_000),
            Line(3, b"b"),
            TooLong(4, 100_001),
        ]


def test_what_cannot_be_opened_is_named(tmp_path):
    with pytest.raises(UnreadableError, match=r"absent: cannot be opened: No such file"):
        Recording(str(tmp_path / "absent"))
    with pytest.raises(UnreadableError, match=r"cannot be opened: Is a directory"):
        Recording(str(tmp_path))


def test_the_standard_input_may_be_compressed_and_has_no_size():
    with Recording("-", io.BufferedReader(io.BytesIO(gzip.compress(b"1\n2\n")))) as recording:
        assert recording.size is None
        assert texts(recording) == [b"1", b"2"]


def test_a_live_pipe_gives_its_lines_as_they_come():
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as stream, os.fdopen(writing, "wb", buffering=0) as out:
        out.write(b"one\ntwo\nthr")
        lines = Recording("-", stream).lines()
        assert next(lines) == Line(1, b"one")
        assert next(lines) == Line(2, b"two")
        out.write(b"ee\n")
        assert next(lines) == Line(3, b"three")


@pytest.fixture
def recording_of(tmp_path):
    with ExitStack() as stack:

        def opened(name, text):
            (tmp_path / name).write_bytes(text)
            return stack.enter_context(Recording(str(tmp_path / name)))

        yield opened


def marks(*times):
    return b"".join(b'{"ts": %g, "host": "h", "mark": ""}\n' % ts for ts in times)


def times(placed):
    return [each.record.ts for each in placed]


def test_bad_lines_are_named_and_the_rest_goes_on(tmp_path, recording_of, monkeypatch):
    monkeypatch.setattr(files, "LONGEST_LINE", 100_000)
    bad: list[str] = []
    content = marks(1) + b'nonsense\n{"ts": 2}\n' + b" " * 100_001 + b"\n" + marks(3)
    read = list(recording_of("day", content).records(bad.append))
    assert times(read) == [1.0, 3.0]
    assert [each.place for each in read] == [f"{tmp_path}/day:1", f"{tmp_path}/day:5"]
    day = tmp_path / "day"
    kinds = "'host', 'application', 'pool', 'mark', 'request', 'wish' and 'feedback'"
    assert bad == [
        f"{day}:2: expected JSON with a value at character 1, got 'nonsense'",
        f"{day}:3: expected one of the fields {kinds}, got none of them",
        f"{day}:4: expected a line of at most 100,000 bytes, got 100,001",
    ]


def test_recordings_are_merged_by_time_and_ties_go_by_the_order_given(recording_of):
    a, b = recording_of("a", marks(1, 4, 5)), recording_of("b", marks(2, 4, 9))
    read = list(merged([recording_of("later", marks(20, 21)), a, b], pytest.fail))
    assert times(read) == [1.0, 2.0, 4.0, 4.0, 5.0, 9.0, 20.0, 21.0]
    assert [each.place[-3:] for each in read[2:4]] == ["a:2", "b:2"]


def test_within_a_recording_the_order_stays(recording_of):
    assert times(merged([recording_of("a", marks(5, 1, 6)), recording_of("b", marks(5.5))], pytest.fail)) == [
        5.0,
        1.0,
        5.5,
        6.0,
    ]


def test_a_recording_that_breaks_off_does_not_stop_the_others(recording_of):
    cut = recording_of("cut", gzip.compress(marks(1, 2))[:-8])
    bad: list[str] = []
    assert times(merged([cut, recording_of("b", marks(3))], bad.append)) == [1.0, 2.0, 3.0]
    assert len(bad) == 1
    assert "is truncated" in bad[0]
