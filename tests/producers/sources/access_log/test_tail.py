"""Files that are renamed, truncated, copied, compressed and left: each line counts once, and what is lost is told."""

from __future__ import annotations

import fcntl
import gzip
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laggard.producers.sources.access_log.blocks import BUDGET_BYTES, LINGER_S
from laggard.producers.sources.access_log.followed import MAX_FILES
from laggard.producers.sources.access_log.formats import text_format
from laggard.producers.sources.access_log.rotation import LONGEST_LINE
from laggard.producers.sources.access_log.source import REPORT_AGAIN_S, AccessLog
from laggard.producers.sources.access_log.tail import Tail
from laggard.producers.sources.access_log.text import TextParser
from laggard.producers.sources.performance import THROUGHPUT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from laggard.producers.sources.performance import Trouble


INTERVAL_S = 10.0
GRACE_S = 2.0
BEGIN = 1_000_003.0
FORMAT = "$msec $status $request_time $request_id"


class Log:
    """A folder of logs, and the source that follows some of them.

    Attributes:
        path: of the log.
        now: the time, of lines and of looks.
        told: how many requests each interval had, by its end, of all frames that were published; the first frame of an
            interval counts, as it does for whoever reads them.
        troubles: all that were told.
        unusable: how many lines could not be used.
        written: how many requests ended in each interval, by its end.
        interval_s: the length of one.

    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "access.log"
        self.state = folder / "state" / "shop.json"
        self.now = BEGIN
        self.told: dict[float, float] = {}
        self.troubles: list[Trouble] = []
        self.unusable = 0
        self.written: dict[float, int] = {}
        self.interval_s = INTERVAL_S
        self._numbered = 0
        self.source = self.begun()

    def begun(self, *paths: Path | str) -> AccessLog:
        """The source, as a program makes it when it begins."""
        names = [str(each) for each in paths or (self.path,)]
        parser = TextParser(text_format(FORMAT))
        self.source = AccessLog("log", "shop", names, parser, self.state, interval_s=self.interval_s, grace_s=GRACE_S)
        return self.source

    def killed(self, *paths: Path | str) -> AccessLog:
        """The program was killed, and begins again."""
        self.source.close()
        return self.begun(*paths)

    def lines(self, count: int) -> bytes:
        """That many requests that end now."""
        end = (round(self.now, 3) // self.interval_s + 1) * self.interval_s
        self.written[end] = self.written.get(end, 0) + count
        self._numbered += count
        return b"".join(b"%.3f 200 0.010 %d\n" % (self.now, self._numbered - n) for n in range(count))

    def write(self, count: int = 1, path: Path | None = None) -> None:
        """Requests that end now, at the end of the log."""
        with (path or self.path).open("ab") as file:
            file.write(self.lines(count))

    def look(self, after_s: float = 0.0, *, published: bool = True) -> None:
        """The source looks at its files, some time later. What it gives is published, and known to be so, or not."""
        self.now += after_s
        while True:
            taken = self.source.parse(self.source.read(self.now))
            self.troubles += taken.troubles
            self.unusable += taken.unusable
            for frame in taken.frames:
                names = list(frame.layout.features)
                count = round(float(frame.values[0][names.index(THROUGHPUT)]) * self.interval_s)
                if published:
                    self.told.setdefault(frame.ts, count)
            if published:
                self.source.published()
            if not taken.more:
                return

    def settle(self) -> None:
        """All intervals that have a line are over, and told."""
        self.look(2 * self.interval_s + GRACE_S)
        self.look(self.interval_s)

    def each_counts_once(self) -> None:
        """All that was written is told, once."""
        self.settle()
        assert self.counted() == self.written

    def counted(self) -> dict[float, float]:
        """How many requests were told, of each interval that had some."""
        return {ts: count for ts, count in self.told.items() if count}


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Log]:
    """A log that has not been looked at yet."""
    made = Log(tmp_path)
    yield made
    made.source.close()


def begun(log: Log) -> None:
    """The log is there and was looked at, so that all that comes counts from the next interval on."""
    log.path.touch()
    log.look()
    log.now += INTERVAL_S


@pytest.fixture
def log(fresh: Log) -> Log:
    begun(fresh)
    return fresh


def rotate(log: Log, suffix: str = ".1") -> Path:
    """As logrotate does with `create`."""
    to = log.path.with_name(log.path.name + suffix)
    log.path.rename(to)
    log.path.touch()
    return to


def gunzipped_away(path: Path) -> None:
    with gzip.open(path.with_name(path.name + ".gz"), "wb") as file:
        file.write(path.read_bytes())
    path.unlink()


def test_what_was_there_before_the_first_look_is_left_out(fresh: Log) -> None:
    fresh.path.write_bytes(fresh.lines(5) + b"1000003.000 200 0.0")  # the last line is being written
    fresh.written.clear()
    fresh.look()
    with fresh.path.open("ab") as file:
        file.write(b"10 x\n")
    fresh.now += INTERVAL_S
    fresh.write(3)
    fresh.each_counts_once()
    assert fresh.unusable == 0


def test_a_file_that_appears_later_is_read_from_its_begin(fresh: Log) -> None:
    fresh.look()
    assert [each.place for each in fresh.troubles] == [str(fresh.path)]
    fresh.look(5 * INTERVAL_S)
    assert fresh.told == {}  # it is unknown
    fresh.write(4)
    fresh.each_counts_once()


def test_a_line_counts_when_it_is_whole(log: Log) -> None:
    line = log.lines(1)
    for at in range(len(line)):
        with log.path.open("ab") as file:
            file.write(line[at : at + 1])
        log.look(0.01)
    log.each_counts_once()
    assert log.unusable == 0


@pytest.mark.parametrize("looked", [False, True])
def test_rotation_by_renaming(log: Log, looked: bool) -> None:
    for _ in range(4):
        log.write(3)
        if looked:
            log.look(1.0)
        old = rotate(log)
        log.write(1, old)  # a worker that has not opened the new one yet
        log.look(3.0)
        log.write(2, old)
        log.write(1)
        log.look(4.0)
    log.each_counts_once()


def test_several_rotations_between_two_looks(log: Log) -> None:
    log.write(3)
    log.look(1.0)
    for number in (2, 1):
        log.write(5)
        rotate(log, f".{number}")
    log.write(2)
    log.each_counts_once()


@pytest.mark.parametrize("rotated", ["access.log-20261122", "access-20261122.log", "access.log.2026-11-22-10"])
def test_the_names_that_rotation_gives(log: Log, rotated: str) -> None:
    log.write(1)
    log.look()
    log.path.rename(log.folder / "access.log.0")
    log.write(5)
    log.path.rename(log.folder / rotated)
    log.write(2)
    log.each_counts_once()


def test_another_log_in_the_folder_is_left_alone(log: Log) -> None:
    log.look()
    rotate(log)
    for name in ("access-admin.log", "access.log.bak", "other.log", "access.log.1.gz", "error.log.1"):
        (log.folder / name).write_bytes(b"%.3f 200 0.010 other\n" % log.now)
    log.write(1)
    log.each_counts_once()


def test_truncation(log: Log) -> None:
    for count in (5, 2, 9, 9):  # shorter than before, longer than before, and as long
        log.write(count)
        log.look(3.0)
        os.truncate(log.path, 0)
    log.each_counts_once()


@pytest.mark.parametrize("pattern", [False, True])
@pytest.mark.parametrize("killed", [False, True])
def test_copytruncate_between_two_looks(fresh: Log, pattern: bool, killed: bool) -> None:
    paths = [fresh.folder / "access.log*"] if pattern else []
    fresh.begun(*paths)
    begun(fresh)
    for number in range(3):
        fresh.write(40)
        fresh.look(1.0)
        fresh.write(20)  # these are unread when they are copied
        shutil.copy(fresh.path, fresh.folder / f"access.log.{3 - number}")
        if number != 1:
            fresh.look(1.0)
        os.truncate(fresh.path, 0)
        fresh.write(30 if number else 90)  # longer than it was
        if killed:
            fresh.killed(*paths)
        fresh.look(1.0)
        fresh.look(20.0)
    fresh.each_counts_once()


def test_a_copy_that_stays_is_not_read_twice(fresh: Log) -> None:
    fresh.begun(fresh.folder / "*.log*")
    begun(fresh)
    fresh.write(50)
    shutil.copy(fresh.path, fresh.folder / "access.log.bak")
    fresh.look(1.0)
    fresh.write(50)
    fresh.each_counts_once()


def test_a_pattern_finds_new_files_and_knows_renamed_ones(fresh: Log) -> None:
    fresh.begun(fresh.folder / "*.log*")
    begun(fresh)
    for name in ("a.log", "b.log"):
        fresh.write(2, fresh.folder / name)
        fresh.look(1.0)
    (fresh.folder / "a.log").rename(fresh.folder / "a.log.1")
    fresh.write(3, fresh.folder / "a.log")
    gunzipped_away(fresh.folder / "b.log")
    fresh.write(1, fresh.folder / "b.log")
    fresh.each_counts_once()


def test_a_file_that_is_renamed_and_still_is_left_in_the_end(log: Log) -> None:
    log.write(2)
    log.look()
    old = rotate(log)
    log.write(1, old)
    with old.open("ab") as file:
        file.write(log.lines(1).rstrip(b"\n"))  # the writer died within the end of a line
    log.look(1.0)
    for _ in range(round(LINGER_S / INTERVAL_S) + 6):
        log.look(INTERVAL_S)
    assert log.source._tail is not None
    assert [each.path for each in log.source._tail.files] == [str(log.path)]
    lost = max(log.written)
    assert log.counted() == {**log.written, lost: log.written[lost] - 1}  # by then its interval is told
    assert log.unusable == 1


def test_a_log_that_is_gone_for_long_reports_nothing(log: Log) -> None:
    log.write(2)
    log.settle()
    log.path.unlink()
    for _ in range(round(LINGER_S / INTERVAL_S) + 6):
        log.look(INTERVAL_S)
    told = max(log.told)
    log.look(1000.0)
    assert max(log.told) == told
    log.write(5)
    log.each_counts_once()
    assert min(ts for ts in log.told if ts > told) >= told + 1000.0 - INTERVAL_S


def test_lines_that_are_too_long_are_skipped(log: Log) -> None:
    long = b"x" * (LONGEST_LINE + 10)
    for _ in range(2):
        for piece in (long, long, b"\n"):
            with log.path.open("ab") as file:
                file.write(piece)
            log.look(0.5)
        log.write(2)
    with log.path.open("ab") as file:
        file.write(b"y" * (LONGEST_LINE - 1) + b"\n")  # the longest that is looked at
    log.write(1)
    log.each_counts_once()
    assert log.unusable == 3
    assert any("at most 262,144 bytes" in each.text for each in log.troubles)


def test_binary_junk_and_holes_do_no_harm_and_are_not_kept(log: Log) -> None:
    log.path.write_bytes(b"secret-token " * 20 + b"\n")
    log.write(3)
    with log.path.open("ab") as file:
        file.write(os.urandom(10_000).replace(b"\n", b"") + b"\n" + bytes(1 << 20) + b"\n")
    log.write(3)
    log.each_counts_once()
    assert log.unusable == 3
    assert b"secret" not in log.state.read_bytes()


def test_of_much_junk_the_first_lines_are_told_and_all_are_counted(log: Log) -> None:
    for _ in range(40):
        with log.path.open("ab") as file:
            file.write(b"what is this\n" * 5)
        log.look(5.0)
    assert log.unusable == 200
    placed = [each.place for each in log.troubles if each.place != str(log.path)]
    assert placed == [f"{log.path}:{offset}" for offset in (0, 13, 26)]
    assert all("expected a line of '$msec" in each.text for each in log.troubles if each.place in placed)
    log.look(REPORT_AGAIN_S)
    with log.path.open("ab") as file:
        file.write(b"what is this\n")
    log.look(5.0)
    assert log.troubles[-1].place == f"{log.path}:2600"


@pytest.mark.slow
def test_much_is_caught_up_with_in_pieces(log: Log) -> None:
    log.write(4 * BUDGET_BYTES // 30)
    reads = 0
    more = True
    while more:
        taken = log.source.parse(log.source.read(log.now))
        reads, more = reads + 1, taken.more
    assert reads > 3
    log.each_counts_once()


@pytest.mark.slow
def test_no_file_gets_far_ahead_of_another(fresh: Log) -> None:
    """One fresh has a day in as many bytes as another has an hour: intervals are told as both get there."""
    fresh.begun(fresh.folder / "*.log")
    fresh.path.touch()
    (fresh.folder / "other.log").touch()
    fresh.look()
    with fresh.path.open("ab") as slow, (fresh.folder / "other.log").open("ab") as fast:
        for number in range(20_000):
            fresh.now = BEGIN + 10.0 + 0.05 * number
            slow.write(fresh.lines(20))
        for number in range(20_000):
            fresh.now = BEGIN + 10.0 + 0.05 * number
            fast.write(fresh.lines(1))
    fresh.each_counts_once()
    assert fresh.unusable == 0


def test_what_is_no_file_is_told_or_refused(fresh: Log) -> None:
    folder, pipe = fresh.folder / "folder.log", fresh.folder / "pipe.log"
    folder.mkdir()
    os.mkfifo(pipe)
    fresh.begun(folder, pipe, fresh.path)
    fresh.path.touch()
    taken = fresh.source.parse(fresh.source.read(fresh.now))
    assert (taken.expected, taken.places) == (3, 1)
    assert {(each.place, each.text) for each in taken.troubles} == {
        (str(path), "expected a regular file") for path in (folder, pipe)
    }
    with pytest.raises(ValueError, match="cannot follow compressed logs"):
        fresh.begun(fresh.folder / "access.log.1.gz")
    with pytest.raises(ValueError, match="at least one path"):
        AccessLog("log", "shop", [], fresh.source._parser, fresh.state)


def test_there_is_a_bound_on_files(fresh: Log) -> None:
    for number in range(MAX_FILES + 2):
        (fresh.folder / f"{number}.log").touch()
    fresh.begun(fresh.folder / "*.log")
    fresh.look()
    assert len([each for each in fresh.troubles if "the limit is 256 files" in each.text]) == 2


def test_a_log_that_may_not_be_read_is_told_and_the_others_go_on(fresh: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    secret, real = fresh.folder / "secret.log", os.open
    secret.touch()

    def refuse(path: str, *given: int) -> int:
        if str(path).endswith("secret.log"):
            raise PermissionError(13, "Permission denied")
        return real(path, *given)

    monkeypatch.setattr(os, "open", refuse)  # tests may run as root, who may read all
    fresh.begun(secret, fresh.path)
    begun(fresh)
    fresh.write(2)
    fresh.each_counts_once()
    assert {(each.place, each.text) for each in fresh.troubles} == {(str(secret), "cannot be read: Permission denied")}


# --- killed ---


def test_killed_between_looks_nothing_is_lost_and_nothing_counts_twice(log: Log) -> None:
    for step in range(80):
        log.write(3)
        dies = step % 4 == 1
        log.look(1.7, published=not dies)  # what was not published is told again
        if dies:
            log.killed()
    log.each_counts_once()
    assert log.unusable == 0


def test_rotated_while_the_program_was_down(log: Log) -> None:
    log.write(3)
    log.look(1.0)
    log.write(3)
    log.killed()
    first = rotate(log, ".2")
    log.write(4)
    rotate(log, ".1")
    log.write(5)
    assert first.exists()
    log.each_counts_once()


def test_rotated_and_compressed_while_the_program_was_down_is_reported(log: Log) -> None:
    log.write(30)
    log.settle()
    log.killed()
    gunzipped_away(rotate(log))
    log.write(5)
    log.each_counts_once()
    assert any("rotated and compressed" in each.text for each in log.troubles)


@pytest.mark.parametrize("restored", [False, True], ids=["another file in the same inode", "the file in another inode"])
def test_a_file_is_known_by_its_first_bytes(log: Log, restored: bool) -> None:
    log.write(30)
    log.settle()
    log.killed()
    if restored:
        shutil.copy(log.path, log.folder / "restored")
        (log.folder / "restored").rename(log.path)
        log.write(5)
    else:
        log.path.write_bytes(log.lines(60))  # longer than it was
    log.each_counts_once()


def test_a_path_that_is_new_in_the_settings_begins_at_its_end(log: Log) -> None:
    log.write(2)
    log.look(1.0)
    other = log.folder / "other.log"
    other.write_bytes(b"%.3f 200 0.010 old\n" % log.now * 9)
    log.killed(log.path, other)
    log.look(1.0)
    log.write(3, other)
    log.each_counts_once()


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"version": 2}', b'{"version": 1, "files": [{}], "paths": []}'])
def test_a_damaged_state_is_told_and_begun_anew(log: Log, damage: bytes) -> None:
    log.write(2)
    log.settle()
    log.state.write_bytes(damage)
    log.killed()
    log.look()
    assert any(each.place == str(log.state) and "expected positions in version 1" in each.text for each in log.troubles)
    log.now += INTERVAL_S
    log.write(3)
    log.each_counts_once()


def test_a_state_that_cannot_be_written_is_told_and_nothing_stops(fresh: Log) -> None:
    fresh.state.parent.write_bytes(b"a file where the folder should be")
    begun(fresh)
    fresh.write(2)
    fresh.each_counts_once()
    assert any(each.place == str(fresh.state) and "cannot be written" in each.text for each in fresh.troubles)


def test_what_was_read_of_a_copied_file_and_is_not_told_yet_is_read_again(log: Log) -> None:
    log.write(40)
    log.look(1.0)
    shutil.copy(log.path, log.folder / "access.log.1")
    os.truncate(log.path, 0)
    log.look(1.0)
    log.killed()
    log.each_counts_once()


def test_a_renamed_file_is_kept_in_mind_until_all_of_it_is_told(fresh: Log) -> None:
    fresh.interval_s = 3600.0
    fresh.begun()
    fresh.path.touch()
    fresh.look()
    fresh.now = (fresh.now // fresh.interval_s + 1) * fresh.interval_s + 1.0
    fresh.write(3)
    fresh.look(1.0)
    rotate(fresh)
    for _ in range(4):
        fresh.look(LINGER_S)
    assert fresh.told == {}
    fresh.killed()
    fresh.each_counts_once()


def test_what_is_read_again_is_not_late_and_what_is_late_is_counted(log: Log) -> None:
    end = (log.now // INTERVAL_S + 1) * INTERVAL_S
    log.now = end - 0.5
    log.write(3)
    late = log.lines(1)
    log.written[end] -= 1
    log.now = end + 1.0
    log.write(3)
    log.look(2.0)  # all of it is read, and half of it told
    assert log.counted() == {end: 3}
    log.killed()
    with log.path.open("ab") as file:
        file.write(late)
    log.each_counts_once()
    assert log.unusable == 1


def test_what_was_rotated_away_before_is_left_alone(fresh: Log) -> None:
    fresh.now += INTERVAL_S  # it would count if it were read
    fresh.write(9, fresh.folder / "access.log.1")
    fresh.written.clear()
    fresh.now -= INTERVAL_S
    begun(fresh)
    fresh.write(2)
    fresh.look(1.0)
    rotate(fresh, ".0")
    fresh.write(2)
    (fresh.folder / "access.log.1").rename(fresh.folder / "access.log.2")
    fresh.settle()
    fresh.killed()
    fresh.each_counts_once()
    assert fresh.unusable == 0


# --- grace ---


def test_lines_that_come_late_count_within_the_grace_and_are_told_after(log: Log) -> None:
    end = (log.now // INTERVAL_S + 1) * INTERVAL_S
    log.now = end - 0.1
    line = log.lines(1)
    log.now = end + 1.5
    log.look()
    with log.path.open("ab") as file:
        file.write(line)
    log.look(1.0)
    assert log.told[end] == 1
    with log.path.open("ab") as file:
        file.write(line)
    log.look(1.0)
    assert log.unusable == 1
    assert any("1 lines came after their interval was published" in each.text for each in log.troubles)


def test_a_wrong_clock_in_one_line_closes_no_interval(log: Log) -> None:
    with log.path.open("ab") as file:
        file.write(b"4000000000.000 200 0.010 future\n")
    log.write(3)
    log.look(1.0)
    log.write(3)
    log.each_counts_once()
    assert log.unusable == 1


# --- doctor ---


def test_check_reads_the_end_of_each_log_and_moves_nothing(fresh: Log) -> None:
    fresh.write(5)
    other = fresh.folder / "other.log"
    other.write_bytes(b"what is this\n" * 10_000)
    fresh.begun(fresh.path, other, fresh.folder / "missing.log", fresh.folder / "*.none")
    told = {each.place: each.text for each in fresh.source.check()}
    assert told.keys() == {str(other), str(fresh.folder / "missing.log"), str(fresh.folder / "*.none")}
    assert "expected a line of '$msec" in told[str(other)]
    assert not fresh.state.exists()


# --- whatever happens ---

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(1, 40)),
        st.tuples(st.just("look"), st.floats(0.1, 15.0)),
        st.tuples(st.just("unpublished"), st.just(0)),
        st.tuples(st.just("rotate"), st.just(0)),
        st.tuples(st.just("copytruncate"), st.just(0)),
        st.tuples(st.just("kill"), st.just(0)),
    ),
    max_size=25,
)


@given(STEPS, st.booleans())
def test_whatever_happens_each_line_counts_once(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, float]], pattern: bool
) -> None:
    log = Log(tmp_path_factory.mktemp("steps"))
    paths = [log.folder / "access.log*"] if pattern else []
    log.begun(*paths)
    begun(log)
    rotations = 0
    for what, how in steps:
        match what:
            case "write":
                was_empty = not log.path.stat().st_size
                log.write(int(how))
                if was_empty:
                    log.look(0.1)  # the copy of a file that was never seen with a line cannot be known
            case "look":
                log.look(how)
            case "unpublished":
                log.look(0.5, published=False)
                log.killed(*paths)
            case "kill":
                log.killed(*paths)
            case "rotate" | "copytruncate":
                rotations += 1
                old = log.folder / f"access.log.{1000 - rotations}"
                if what == "rotate":
                    log.path.rename(old)
                    log.path.touch()
                elif log.path.stat().st_size:
                    shutil.copy(log.path, old)
                    os.truncate(log.path, 0)
    log.settle()
    log.source.close()
    assert log.counted() == log.written
    assert log.unusable == 0


def test_what_lies_beside_a_log_and_is_called_otherwise_is_not_opened(tmp_path: Path) -> None:
    """To close a file releases all locks that a process has on it: those of a database, too."""
    log, other = tmp_path / "access.log", tmp_path / "laggard.db"
    log.write_bytes(b"a\n" * 100)
    other.write_bytes(b"x" * 4096)
    take = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+b'), fcntl.LOCK_EX | fcntl.LOCK_NB)"

    def is_locked() -> bool:
        return (
            subprocess.run([sys.executable, "-c", take, str(other)], stderr=subprocess.DEVNULL, check=False).returncode
            == 1
        )

    with other.open("r+b") as held:
        fcntl.lockf(held, fcntl.LOCK_EX)
        first = Tail([str(log)])
        first.read(1.0)
        positions = [each.position(2.0) for each in first.files]
        first.close()
        second = Tail([str(log)], positions, [str(log)])
        second.read(2.0)
        log.write_bytes(b"")  # truncated: its copy is looked for
        second.read(3.0)
        log.unlink()
        second.read(4.0)
        second.close()
        third = Tail([str(log)], positions, [str(log)])
        third.read(5.0)
        third.close()
        assert is_locked()
    assert not is_locked()
