"""What looks and samples add up to, phase by phase, and how it is cut to size."""

from __future__ import annotations

import json

import pytest

from laggard.pipeline.core.records.diagnosis import Diagnosis, Location, Stack
from laggard.pipeline.core.records.diagnosis_json import diagnosis_object
from laggard.producers.diagnosis.contract import Sample
from laggard.producers.diagnosis.threads import RUNNING, UNKNOWN, Thread, ThreadSample
from laggard.producers.diagnosis.use import ENDED, STACKS, PhaseRecord, entry, phases

LIBC = "/usr/lib/x86_64-linux-gnu/libc.so.6"
GRIND, SERVE, GRINDER = (Location(name, "/srv/app", 4096 + at) for at, name in enumerate(("grind", "serve", "grinder")))
START = Location("", LIBC, 0x891F5)
READ = ThreadSample((Location("read", LIBC, 7),), "blocked", "pipe_read", "read")


@pytest.fixture
def record():
    return PhaseRecord(1.0, high=True)


def thread(tid, look=RUNNING, *, user_s=0.0, before_s=0.0, name="worker"):
    """As a look finds it: with its CPU time, and the part of that which was before."""
    found = Thread(tid, new=False)
    found.name, found.look = name, look
    found.cpu.user_s = user_s
    found.before_s = (before_s, 0.0)
    return found


def sample(tid, *locations, state="running", ts=1.5):
    return Sample(ts, tid, locations, state)


def told(record, size_bytes=1 << 20):
    (phase,) = phases([record], size_bytes)
    return phase


def test_threads_come_by_cpu_time_and_what_they_did_before_is_not_the_phases(record):
    record.add(2.0, [thread(1, user_s=9.0, before_s=8.9), thread(2, READ, user_s=0.5, before_s=0.1)], [])
    record.add(3.0, [thread(1, user_s=9.1, before_s=9.0), thread(2, READ, user_s=0.5, before_s=0.5)], [])
    phase = told(record)
    assert [each.tid for each in phase.threads] == [2, 1]
    assert [each.user_s for each in phase.threads] == pytest.approx([0.4, 0.2])
    assert [each.samples for each in phase.threads] == [2, 2]
    assert (phase.begin_ts, phase.end_ts, phase.samples, phase.left_out) == (1.0, 3.0, 2, 0)
    assert phase.threads[0].stacks == (Stack(READ.locations, 2, "blocked", "pipe_read", "read"),)
    assert (phase.threads[0].first_ts, phase.threads[0].last_ts) == (2.0, 3.0)


def test_of_each_state_the_finer_ones_are_told(record):
    record.add(2.0, [thread(1)], [])
    record.add(3.0, [thread(1, READ)], [])
    record.add_sample(sample(1, GRIND, SERVE), RUNNING)
    record.add_sample(sample(1, GRIND, SERVE), RUNNING)
    (found,) = told(record).threads
    assert found.stacks == (
        Stack((GRIND, SERVE), 2, "running"),
        Stack(READ.locations, 1, "blocked", "pipe_read", "read"),
    )


def test_a_blocked_sample_says_with_the_last_look_what_it_waits_in(record):
    record.add(2.0, [thread(1, READ)], [])
    record.add_sample(sample(1, SERVE, state="blocked"), READ)
    record.add_sample(sample(1, SERVE, state="blocked"), RUNNING)  # it ran meanwhile: nothing is known of that wait
    (found,) = told(record).threads
    assert set(found.stacks) == {
        Stack((SERVE,), 1, "blocked", "pipe_read", "read"),
        Stack((SERVE,), 1, "blocked"),
    }


def test_a_thread_that_only_a_profiler_met_is_told(record):
    record.add_sample(sample(9, GRIND, ts=1.25), UNKNOWN)
    (found,) = told(record).threads
    assert (found.tid, found.first_ts, found.samples, found.user_s) == (9, 1.25, 0, 0.0)
    record.add(2.0, [thread(9, user_s=70.0, before_s=69.5)], [])
    (found,) = told(record).threads
    assert found.user_s == pytest.approx(0.5)


def test_a_thread_id_that_is_used_again_is_another_thread(record):
    first = thread(1, user_s=1.0, name="first")
    record.add(2.0, [first], [])
    record.add(3.0, [thread(1, user_s=0.25, name="second")], [first])
    record.add_sample(sample(1, GRIND), RUNNING)
    assert [(each.name, each.user_s) for each in told(record).threads] == [("first", 1.0), ("second", 0.25)]


def test_late_samples_of_a_thread_that_has_ended_are_its_own(record):
    ended = thread(1, user_s=1.0)
    record.add(2.0, [ended], [])
    record.add(3.0, [], [ended])
    record.add_sample(sample(1, GRIND), UNKNOWN)
    (found,) = told(record).threads
    assert (found.user_s, found.stacks) == (1.0, (Stack((GRIND,), 1, "running"),))


@pytest.mark.parametrize(
    ("stack", "expected"),
    [
        ((GRIND, SERVE, GRINDER, START, Location("__clone3", LIBC, 9)), GRINDER),
        ((GRIND, SERVE, GRINDER, START), GRINDER),  # the library has no symbols
        ((GRIND, SERVE), Location()),  # callers are missing
        ((START,), Location()),
        ((), Location()),
        ((Location("read", LIBC, 7),), Location()),
        (
            (
                Location("grind", "/srv/app.py", line=7),
                Location("Thread.run", "/usr/lib/python3.11/threading.py", line=982),
                Location("Thread._bootstrap", "/usr/lib/python3.11/threading.py", line=1002),
            ),
            Location("grind", "/srv/app.py", line=7),
        ),
        ((Location("<module>", "/srv/app.py", line=9),), Location("<module>", "/srv/app.py", line=9)),
        (
            (
                Location("schedule", "[kernel]"),
                Location("worker_thread", "[kernel]"),
                Location("kthread", "[kernel]"),
                Location("ret_from_fork", "[kernel]"),
            ),
            Location("worker_thread", "[kernel]"),
        ),
        ((Location("do_futex", "[kernel]"), Location("entry_SYSCALL_64", "[kernel]"), START), Location()),
    ],
)
def test_a_thread_begins_with_the_outermost_function_that_is_its_own(stack, expected):
    assert entry(stack) == expected


def size_bytes(record, limit):
    found = phases([record], limit)
    diagnosis = Diagnosis("17", "closed", "atlas", 2.0, "app[1@2]", "app", 1, "app", "asked", phases=found)
    return len(json.dumps(diagnosis_object(diagnosis), separators=(",", ":"))), found[0]


@pytest.mark.parametrize("name", ["worker", "\u5de5\u4f5c\U0001f600"])
@pytest.mark.parametrize("limit", [3_000, 30_000, 300_000])
def test_a_diagnosis_is_no_larger_than_asked_and_says_what_is_left_out(record, limit, name):
    record.add(2.0, [thread(tid, READ, user_s=1 / tid, name=name) for tid in range(1, 1001)], [])
    for number in range(400):
        record.add_sample(sample(1, *(Location(f"{name}{number}", "/srv/app", at) for at in range(20))), RUNNING)
    size, phase = size_bytes(record, limit)
    assert 0.3 * limit < size <= limit or phase.left_out == 0
    assert len(phase.threads) + phase.left_out == 1000
    assert [each.tid for each in phase.threads] == list(range(1, len(phase.threads) + 1))
    # What is cut of the first one's stacks is still counted.
    assert sum(stack.samples for stack in phase.threads[0].stacks if stack.state == "running") == 400


def test_no_phase_takes_the_room_of_the_others():
    records = []
    for number in range(10):
        record = PhaseRecord(float(number), high=number % 2 == 0)
        record.add(number + 0.5, [thread(tid, READ, user_s=1 / tid) for tid in range(1, 1001)], [])
        records.append(record)
    counts = [len(phase.threads) for phase in phases(records, 100_000)]
    assert min(counts) > 0.8 * max(counts)


def test_many_different_stacks_of_a_thread_leave_the_frequent_ones(record):
    count = 3 * STACKS
    for number in range(count):
        record.add_sample(sample(1, GRIND), RUNNING)
        record.add_sample(sample(1, Location("rare", "/srv/app", number)), RUNNING)
    (found,) = told(record).threads
    assert found.stacks[0] == Stack((GRIND,), count, "running")
    assert sum(stack.samples for stack in found.stacks) == 2 * count
    assert len(found.stacks) <= STACKS + 1
    assert () in {stack.locations for stack in found.stacks}  # the rest


def test_many_threads_that_have_ended_leave_those_with_most_cpu_time(record):
    count = 3 * ENDED
    for number in range(count):
        short = thread(number + 1, user_s=10.0 if number == 5 else 1e-6 * number)
        record.add(2.0, [short], [])
        record.add(2.0, [], [short])
    phase = told(record, 1 << 30)
    assert phase.threads[0].tid == 6
    assert len(phase.threads) + phase.left_out == count
    assert len(phase.threads) <= 2 * ENDED
