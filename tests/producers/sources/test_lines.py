"""JSON lines while they are written: into a file, a named pipe, and standard input."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

from laggard.producers.sources.access_log.rotation import LONGEST_LINE
from laggard.producers.sources.lines import BUDGET_BYTES, JsonLines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from laggard.producers.sources.performance import Taken


def line(ts: float, application: str = "shop", value: float = 1.0) -> bytes:
    return b'{"ts":%r,"application":"%s","performance":{"throughput_per_s":%r}}\n' % (ts, application.encode(), value)


def times(taken: Taken) -> list[float]:
    return [frame.ts for frame in taken.frames]


class Run:
    def __init__(self, path: Path | str, state: Path, standard_input: int = 0) -> None:
        self.source = JsonLines("shop", str(path), state=state / "lines.json", standard_input=standard_input)
        self.ts = 100.0

    def look(self) -> Taken:
        self.ts += 1.0
        return self.source.parse(self.source.read(self.ts))


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reads, writes = os.pipe()
    yield reads, writes
    os.close(reads)


def test_a_file_from_now_on_and_after_a_restart(tmp_path: Path) -> None:
    log = tmp_path / "shop.jsonl"
    log.write_bytes(line(1))
    run = Run(log, tmp_path)
    assert times(run.look()) == []
    with log.open("ab") as file:
        file.write(line(2) + line(3)[:10])
    taken = run.look()
    assert times(taken) == [2]
    assert taken.frames[0].sequence == 2000, "the same when it is read again"
    with log.open("ab") as file:
        file.write(line(3)[10:])
    assert times(run.look()) == [3]
    # Killed before these were known to have arrived, and started anew: they come again; then they do not.
    run.source.close()
    run = Run(log, tmp_path)
    assert times(run.look()) == [2, 3]
    run.source.published()
    run.source.close()
    log.rename(tmp_path / "shop.jsonl.1")
    log.write_bytes(line(4))
    assert times(Run(log, tmp_path).look()) == [4]


def test_a_file_that_is_not_there_yet(tmp_path: Path) -> None:
    run = Run(tmp_path / "none.jsonl", tmp_path)
    taken = run.look()
    assert (taken.expected, taken.places, len(taken.troubles)) == (1, 0, 1)
    assert run.source.check()[0].text == "there is no such file or named pipe"
    (tmp_path / "none.jsonl").write_bytes(line(5))
    assert times(run.look()) == [5]
    assert not run.source.check()


def test_a_named_pipe_whose_writers_come_and_go(tmp_path: Path) -> None:
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    run = Run(fifo, tmp_path)
    assert times(run.look()) == []
    for ts in (1, 2):
        with fifo.open("wb") as file:
            file.write(line(ts) + line(ts + 10)[:5])
        assert times(run.look()) == [ts], "and nobody waits for the rest"
        with fifo.open("wb") as file:
            file.write(line(ts + 10)[5:])
        assert times(run.look()) == [ts + 10]
    assert not run.source.finished
    run.source.close()


def test_standard_input_ends(tmp_path: Path, pipe: tuple[int, int]) -> None:
    reads, writes = pipe
    run = Run("-", tmp_path, reads)
    os.write(writes, line(1) + b"\n  \n" + line(2)[:-1])
    assert times(run.look()) == [1]
    os.close(writes)
    assert times(run.look()) == [2], "the last line may lack its end"
    assert run.source.finished


def test_lines_of_no_use_are_told_by_number_and_the_others_go_on(tmp_path: Path, pipe: tuple[int, int]) -> None:
    reads, writes = pipe
    run = Run("-", tmp_path, reads)
    bad = [
        b"no JSON\n",
        line(2, "other"),
        b'{"ts":1,"host":"web-1","mark":"x"}\n',
        b'{"ts":1,"host":"web-1","rows":{}}\n',
        b"\xff\n",
        *[b"{}\n"] * 5,
    ]
    os.write(writes, b"".join([*bad, line(3)]))
    taken = run.look()
    assert times(taken) == [3]
    assert (taken.samples, taken.unusable) == (11, 10)
    assert [each.place for each in taken.troubles] == [f"standard input:{number}" for number in range(1, 6)]
    assert taken.troubles[1].text.endswith("expected a frame of the application 'shop', got one of application 'other'")
    assert not any(each.lasting for each in taken.troubles)
    os.close(writes)


def test_a_line_that_is_too_long_is_skipped(tmp_path: Path) -> None:
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    run = Run(fifo, tmp_path)
    run.look()
    writes = os.open(fifo, os.O_WRONLY)
    found: list[float] = []
    unusable = 0
    text = line(1) + b"x" * (3 * LONGEST_LINE) + b"\n" + line(2)
    for at in range(0, len(text), 32_768):  # a pipe holds 64 KiB
        os.write(writes, text[at : at + 32_768])
        taken = run.look()
        found += times(taken)
        unusable += taken.unusable
    assert (found, unusable) == ([1, 2], 1)
    assert taken.troubles[0].text == f"expected a line of at most {LONGEST_LINE:,} bytes"
    os.close(writes)
    run.source.close()


@pytest.mark.slow
def test_much_is_read_in_parts_that_lose_nothing(tmp_path: Path) -> None:
    log = tmp_path / "much.jsonl"
    count = 2 * BUDGET_BYTES // len(line(1000.5))
    log.write_bytes(b"")
    run = Run(log, tmp_path)
    run.look()
    log.write_bytes(b"".join(line(1000.5 + number) for number in range(count)))
    found = [run.look()]
    while found[-1].more:
        found.append(run.look())
    assert len(found) > 1
    assert [ts for each in found for ts in times(each)] == [1000.5 + number for number in range(count)]


def test_whatever_the_parts_are_in_which_they_come(tmp_path: Path, pipe: tuple[int, int]) -> None:
    reads, writes = pipe
    chance = random.Random(3)
    run = Run("-", tmp_path, reads)
    text = b"".join(line(ts) for ts in range(100))
    found: list[float] = []
    while text:
        size = chance.randrange(1, 300)
        os.write(writes, text[:size])
        text = text[size:]
        found += times(run.look())
    os.close(writes)
    assert found + times(run.look()) == list(range(100))


def test_members_of_a_pool(tmp_path: Path, pipe: tuple[int, int]) -> None:
    reads, writes = pipe
    source = JsonLines("jobs", "-", state=tmp_path / "lines.json", standard_input=reads, keyed_by="pool")
    rows = b'"rows":{"worker-1":{"cpu_ratio":0.4},"worker-2":{"cpu_ratio":0.1}}'
    os.write(writes, b'{"ts":1,"pool":"jobs",%b}\n{"ts":2,"pool":"others",%b}\n' % (rows, rows) + line(3, "jobs"))
    os.close(writes)
    taken = source.parse(source.read(100.0))
    [frame] = taken.frames
    assert (frame.keyed_by, frame.key, frame.scope, frame.sequence) == ("pool", "jobs", "member", 1000)
    assert frame.layout.rows == ("worker-1", "worker-2")
    assert taken.unusable == 2
    assert [each.text for each in taken.troubles] == [
        "expected a frame of the pool 'jobs', got one of pool 'others'",
        "expected a frame of the pool 'jobs', got one of application 'jobs'",
    ]
