"""A diagnosis in words and in a terminal: what is told first, what is counted, and that nothing breaks the terminal."""

from __future__ import annotations

import io
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from rich.console import Console

from laggard.pipeline.core.records.diagnosis import Diagnosis, Phase, Stack, ThreadUse
from laggard.pipeline.history.report import Page
from laggard.pipeline.methods.diagnoses.hottest import spots, together, uses
from laggard.pipeline.methods.diagnoses.page import Shown, diagnosis_lines, doing_lines, standing
from laggard.pipeline.methods.diagnoses.waits import suffers, waits_for
from laggard.pipeline.methods.diagnoses.words import looked, sentence
from tests.pipeline.core.records.test_diagnosis_json import DIAGNOSES
from tests.pipeline.methods.diagnoses.conftest import (
    COMPUTE,
    CONDITION,
    ELSEWHERE,
    FSYNC,
    LATER,
    LOOP,
    NOTHING,
    ON_DISK,
    ONE_HOT,
    PARSE,
    START,
    STRIPPED,
    TWO_DIPS,
    UNTRUSTWORTHY,
    WAITING,
    diagnosis,
    thread,
)


def page(told: Diagnosis, width: int = 100, shown: Shown = Shown()) -> list[str]:  # noqa: B008 - frozen
    return [line.plain for line in diagnosis_lines(told, Page(width), shown)]


def test_profiled_processes_are_distinguished_from_ranked_ones() -> None:
    assert [str(line) for line in doing_lines(["a", "b", "c"], 1, ["a"], ["a", "b"])] == [
        "What processes were doing (1 of 3 that were profiled)"
    ]
    heading, relation = doing_lines(["a", "b"], 2, ["a"], ["a"])
    assert str(heading) == "What processes were doing"
    assert "the ranking above lists the most unusual ones" in str(relation)
    assert [str(standing(row, ["a"], ["a", "b"])) for row in "abc"] == [
        "Culprit:",
        "Ranked above, not a culprit:",
        "Not a culprit, and less unusual than those above:",
    ]
    assert str(standing("c", ["a"], ())) == "Not a culprit:"


SENTENCE = (
    "`python3` (pid 26801, `python3 hot.py --serve`) used 95.3 % of one core, 92 % of it in `compute` (hot.py:12); "
    "of 10 threads `worker` (26810) used nearly all of it."
)


def test_threads_by_use_with_their_hottest_functions() -> None:
    assert page(ONE_HOT) == [
        SENTENCE,
        "Profiled from 2023-11-14 22:13:20 to 22:13:30 (10 s), 100 times, with proc, py-spy.",
        "",
        "    95 %  worker  26810  began in python3.11+0x1d7b",
        "            92 %  compute (hot.py:12) < run_forever",
        "             8 %  parse (hot.py:40) < run_forever",
        "   0.2 %  python3  26801  began in python3.11+0x1d7b",
        "           100 %  blocked in futex_do_wait (futex), waiting for another thread, or a lock",
        "   0.1 %  writer  26811  began in python3.11+0x1d7b",
        "           100 %  blocked in folio_wait_bit_common (fsync), waiting for the disk < fsync < run_f...",
        "          and 7 threads with less use, not kept",
        "",
        "Profiling took 123 ms of CPU time, 1.2 % of one core; the process was never stopped.",
        "Note: perf cannot be used: perf_event_paranoid is 3",
        "Note: a thread is called \\x1b[2J<b>&\"';\\n\\u202e [bold]",
    ]


def test_what_used_most_can_come_last_as_it_was_published() -> None:
    lines = page(ONE_HOT, shown=Shown(threads=2, functions=1, reverse=True))
    assert lines[3:8] == [
        "          and 1 more thread, 0.1 % and 7 threads with less use, not kept",
        "   0.2 %  python3  26801  began in python3.11+0x1d7b",
        "           100 %  blocked in futex_do_wait (futex), waiting for another thread, or a lock",
        "    95 %  worker  26810  began in python3.11+0x1d7b",
        "             8 %  in 1 other place",
    ]
    assert lines[8] == "            92 %  compute (hot.py:12) < run_forever"


def test_what_ran_before_a_dip_is_told_from_what_ran_after() -> None:
    lines = page(TWO_DIPS)
    assert lines[0].startswith("From 22:14:10 to 22:15:08 `python3` (pid 26801,")
    assert "because it used 93 % of all CPUs (profiled from 85 % on)." in lines[1]
    phases = [line for line in lines if line.startswith(("Phase", "Dip"))]
    assert [line.partition(" of one core")[0] for line in phases] == [
        "Phase 1, 22:14:10 to 22:15:08 (58 s), sampled 45 times: it used 175 %",
        "Dip 2, 22:15:08 to 22:15:12 (4 s), sampled 10 times: it used 2.5 %",
        "Phase 3, 22:15:12 to 22:15:48 (36 s), sampled 45 times: it used 175 %",
        "Dip 4, 22:15:48 to 22:15:52 (4 s), sampled 10 times: it used 2.5 %",
        "Phase 5, 22:15:52 to 22:16:10 (18 s), sampled 45 times: it used 175 %",
    ]
    assert "all of it in `compute` (hot.py:12); of 2 threads `worker` (26810) used most, 90 %." in phases[0]
    assert "all of it in `parse` (hot.py:40)" in phases[2]
    assert "all of it in `libfast.so.1+0x1d7b`" in phases[4]
    assert "   175 %  all threads together" in lines
    assert lines[-1].endswith("the process was stopped for 21.3 ms in all.")


def blocked(tid: int, name: str, count: int, *where: str) -> ThreadUse:
    return thread(tid, name, 0.0, Stack((), count, "blocked", *where))


def high(samples: int, *threads: ThreadUse) -> Diagnosis:
    return diagnosis(Phase(True, START, START + 10, samples, threads))


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (
            ON_DISK,
            (
                "`postgres` (pid 26801) used 3 % of one core; `postgres` (26801) was blocked in "
                "`folio_wait_bit_common` (fsync), waiting for the disk, in 100 % of its samples."
            ),
        ),
        (
            high(
                1000,
                blocked(1, "idle", 1000, "ep_poll", "epoll_wait"),
                thread(2, "stuck", 0.0, Stack((), 3, "blocked", "rwsem_down_read_slowpath"), WAITING),
            ),
            "`stuck` (2) was blocked in `rwsem_down_read_slowpath`, waiting for a lock of the kernel, in 2.9 %",
        ),
        (
            high(1, blocked(1, "a", 1, "poll_schedule_timeout.constprop.0", "poll")),
            "it was blocked in `poll_schedule_timeout` (poll), waiting for events, in 100 % of its samples",
        ),
        (
            high(9, thread(1, "a", 9.0, Stack((), 9))),
            "used 90 % of one core, all of it in unknown functions.",
        ),
        (
            high(4, thread(1, "a", 9.0, Stack((STRIPPED,), 2), Stack((ELSEWHERE,), 1))),
            "all of it in `libfast.so.1+0x1d7b` and 1 other place there.",
        ),
    ],
    ids=[
        "who hardly computes, by what it waits for",
        "who waits for others goes before who is idle",
        "without what the compiler adds to a name",
        "unknown functions",
        "a module without symbols",
    ],
)
def test_a_sentence_tells_what_there_is_to_tell(told: Diagnosis, said: str) -> None:
    assert said in sentence(told)


def test_what_could_not_be_seen_is_said() -> None:
    assert (
        page(NOTHING)[0] == "What `python3` (pid 26801, `python3 hot.py --serve`) did is unknown: there are no samples."
    )
    assert page(NOTHING)[-1] == "Note: the process ended before it could be looked at"
    once = diagnosis(Phase(True, START, START, 1, (thread(1, "a", 0.0, Stack((), 1), end=START),)))
    assert sentence(once).endswith("was seen for a moment.")
    assert "Profiled from 2023-11-14 22:13:20 to 22:13:20 (0 s), once, with" in looked(once)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"progress": "extended"}, "(profiled from 85 % on); it goes on."),
        ({"complete": False}, "(profiled from 85 % on); cut short."),
        ({"reason": "asked", "complete": False}, "with proc, py-spy."),
        ({"reason": "quota", "value": 0.4}, "because its CPU quota held it back 40 % of the time (profiled from 85 %"),
        ({"reason": "moon", "threshold": math.nan}, ", because of moon."),
    ],
)
def test_why_and_how_long_it_was_looked_at(change: dict[str, Any], said: str) -> None:
    assert said in looked(replace(TWO_DIPS, **change))


def test_a_function_is_one_spot_on_whatever_lines_it_was_and_a_module_without_symbols_likewise() -> None:
    found = spots([(Stack((COMPUTE,), 3), 1.0), (Stack((LATER, LOOP), 5), 1.0), (Stack((PARSE,), 2), 1.0)])
    assert [(each.share, each.location, each.callers) for each in found] == [
        (0.8, LATER, (LOOP,)),
        (0.2, PARSE, ()),
    ]
    found = spots([(Stack((STRIPPED,), 3), 1.0), (Stack((ELSEWHERE,), 1), 1.0)])
    assert [(each.share, each.location, each.places) for each in found] == [(1.0, STRIPPED, 2)]


def test_blocked_threads_are_told_by_what_they_wait_in_and_who_called() -> None:
    found = spots([(WAITING, 1.0), (Stack((FSYNC,), 50, "blocked", "", "fsync"), 1.0), (Stack((), 50, "blocked"), 1.0)])
    assert [(each.share, each.wait_channel, each.system_call, each.location) for each in found] == [
        (0.5, "futex_do_wait", "futex", CONDITION),
        (0.25, "", "", None),
        (0.25, "", "fsync", FSYNC),
    ]


def test_of_what_blocks_a_thread_the_function_is_told_and_of_a_brief_one_how_long_it_was_seen() -> None:
    stacks = (Stack((FSYNC, LOOP), 2, "blocked"), Stack((), 1, "blocked"))
    lines = page(diagnosis(Phase(True, START, START + 10, 3, (thread(1, "a", 0.0, *stacks),))))
    assert lines[4:6] == ["          66.7 %  blocked in fsync (libc.so.6) < run_forever", "          33.3 %  blocked"]
    brief = thread(1, "brief", 1.0, Stack((COMPUTE,), 10), end=START + 1.2)
    lines = page(diagnosis(Phase(True, START, START + 10, 100, (brief,))))
    assert "    10 %  brief  1  began in python3.11+0x1d7b, seen for 1.2 s" in lines


def test_cpu_time_is_shared_out_by_the_clock_of_each_thread_not_by_how_often_it_was_seen() -> None:
    often = thread(1, "often", 1.0, Stack((PARSE,), 900), WAITING)
    seldom = thread(2, "seldom", 3.0, Stack((COMPUTE,), 10), Stack((LOOP,), 10))
    phase = Phase(True, START, START + 10, 900, (often, seldom))
    shares = {each.location: each.share for each in together((phase,))}
    assert shares == pytest.approx({COMPUTE: 0.375, LOOP: 0.375, PARSE: 0.25})
    assert [each.thread.name for each in uses(phase)] == ["seldom", "often"]
    assert [each.share for each in uses(phase)] == pytest.approx([0.3, 0.1])


@pytest.mark.parametrize(
    ("channel", "what"),
    [
        ("folio_wait_bit_common", "for the disk"),
        ("futex_do_wait", "for another thread, or a lock"),
        ("poll_schedule_timeout.constprop.0", "for events"),
        ("reclaim_throttle", "for free memory"),
        ("do_wait", "for a child process"),
        ("a_function_of_tomorrow", ""),
        ("", ""),
    ],
)
def test_what_a_wait_is_for(channel: str, what: str) -> None:
    assert waits_for(channel) == what
    assert suffers(channel) == (what in {"for the disk", "for free memory"})


@pytest.mark.parametrize("width", [30, 60, 100, 200])
@pytest.mark.parametrize("told", [ONE_HOT, TWO_DIPS, ON_DISK, UNTRUSTWORTHY])
def test_tables_fit_the_terminal(told: Diagnosis, width: int) -> None:
    rows = [line for line in page(told, width) if line.startswith("  ")]
    assert rows
    assert max(map(len, rows)) <= max(width, 60)


@given(told=DIAGNOSES)
def test_no_name_does_anything_to_the_terminal(told: Diagnosis) -> None:
    output = io.StringIO()
    console = Console(file=output, markup=False, highlight=False, emoji=False, width=100, force_terminal=False)
    for line in diagnosis_lines(told, Page(100), Shown()):
        assert line.plain.isprintable()
        console.print(line)
    assert "\x1b" not in output.getvalue()
