"""Diagnoses as they come: one that a person asked for, and S1's figure, an event from 50 s to 170 s with two dips."""

from __future__ import annotations

import time
from typing import Any

import pytest

from laggard.pipeline.core.records.diagnosis import Diagnosis, Location, Phase, Stack, ThreadUse

START = 1_700_000_000.0
UNTRUSTED = "\x1b[2J<b>&\"';\n\u202e [bold]"

COMPUTE = Location("compute", "/srv/app/hot.py", line=12)
LATER = Location("compute", "/srv/app/hot.py", line=13)
PARSE = Location("parse", "/srv/app/hot.py", line=40)
LOOP = Location("run_forever", "/srv/app/hot.py", line=77)
STRIPPED = Location("", "/usr/lib/libfast.so.1", 0x1D7B)
ELSEWHERE = Location("", "/usr/lib/libfast.so.1", 0x1E00)
CONDITION = Location("pthread_cond_wait", "/usr/lib/libc.so.6", 0x86D5)
FSYNC = Location("fsync", "/usr/lib/libc.so.6", 0x10A5)
WRITE = Location("ksys_write", "[kernel]", 0x40)

WAITING = Stack((CONDITION, LOOP), 100, "blocked", "futex_do_wait", "futex")


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


def thread(
    tid: int, name: str, used_s: float, *stacks: Stack, begin: float = START, end: float = START + 10.0
) -> ThreadUse:
    entry = Location("", "/usr/bin/python3.11", 0x1D7B)
    return ThreadUse(tid, name, entry, begin, end, 0.9 * used_s, 0.1 * used_s, sum(s.samples for s in stacks), stacks)


def diagnosis(*phases: Phase, reason: str = "asked", **others: Any) -> Diagnosis:
    fields: dict[str, Any] = {
        "id": "5a0a0c5e-0000-5000-8000-000000000001",
        "progress": "closed",
        "host": "web-1",
        "ts": phases[-1].end_ts if phases else START,
        "row": "python3[26801@99]",
        "name": "python3",
        "pid": 26801,
        "command": "python3 hot.py --serve",
        "reason": reason,
        "methods": ("proc", "py-spy"),
        "phases": phases,
        "sampler_cpu_s": 0.123,
    }
    return Diagnosis(**(fields | others))


ONE_HOT = diagnosis(
    Phase(
        True,
        START,
        START + 10.0,
        100,
        (
            thread(26810, "worker", 9.5, Stack((COMPUTE, LOOP), 60), Stack((LATER, LOOP), 32), Stack((PARSE, LOOP), 8)),
            thread(26801, "python3", 0.02, WAITING),
            thread(26811, "writer", 0.01, Stack((FSYNC, LOOP), 97, "blocked", "folio_wait_bit_common", "fsync")),
        ),
        left_out=7,
    ),
    notes=("perf cannot be used: perf_event_paranoid is 3", f"a thread is called {UNTRUSTED}"),
)
"""A hot function among idle threads."""


def _high(begin: float, end: float, function: Location) -> Phase:
    lasted = end - begin
    hot = thread(26810, "worker", 1.8 * lasted / 2, Stack((function, LOOP), 45), begin=START + begin, end=START + end)
    other = thread(26812, "worker", 1.7 * lasted / 2, Stack((function, LOOP), 45), begin=START + begin, end=START + end)
    return Phase(True, START + begin, START + end, 45, (hot, other))


def _dip(begin: float, end: float) -> Phase:
    lull = thread(26810, "worker", 0.1, WAITING, begin=START + begin, end=START + end)
    return Phase(False, START + begin, START + end, 10, (lull,))


TWO_DIPS = diagnosis(
    _high(50, 108, COMPUTE),
    _dip(108, 112),
    _high(112, 148, PARSE),
    _dip(148, 152),
    _high(152, 170, STRIPPED),
    reason="cpu",
    value=0.93,
    threshold=0.85,
    stopped_s=0.0213,
)
"""The case of S1's figure 2."""

ON_DISK = diagnosis(
    Phase(
        True,
        START,
        START + 10.0,
        100,
        (
            thread(26801, "postgres", 0.3, Stack((FSYNC,), 98, "blocked", "folio_wait_bit_common", "fsync")),
            thread(26802, "postgres", 0.0, Stack((), 100, "blocked", "ep_poll", "epoll_wait")),
        ),
    ),
    reason="io_pressure",
    value=0.62,
    threshold=0.4,
    name="postgres",
    command="",
)
"""A process stuck on disk, beside an idle one."""

UNTRUSTWORTHY = diagnosis(
    Phase(
        True,
        START,
        START + 10.0,
        100,
        (
            thread(
                7,
                UNTRUSTED,
                9.0,
                Stack((Location(UNTRUSTED, f"/tmp/{UNTRUSTED}", line=3), WRITE), 5),
                Stack((Location(UNTRUSTED),), 4, "blocked", UNTRUSTED, UNTRUSTED),
            ),
        ),
    ),
    name=UNTRUSTED,
    command=UNTRUSTED,
    reason=UNTRUSTED,
    methods=(UNTRUSTED,),
    notes=(UNTRUSTED,),
)
"""What a process may call itself and its functions."""

NOTHING = diagnosis(notes=("the process ended before it could be looked at",), complete=False)
"""Of a process that was not there any more."""
