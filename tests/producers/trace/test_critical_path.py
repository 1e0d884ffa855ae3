"""The critical path: exact on requests whose waits are known, and what real traces do that would lead it astray."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laggard.producers.trace.analysis import Analysis
from laggard.producers.trace.critical_path import Piece, _interrupted
from laggard.producers.trace.events import Flags, Kind
from laggard.producers.trace.states import BI, RU
from laggard.producers.trace.threads import Process, Processor, Thread
from tests.producers.trace.rows import Rows, nanoseconds
from tests.producers.trace.simulated import (
    Inline,
    Interrupted,
    Kernel,
    Preempted,
    Run,
    Stage,
    Wait,
    WaitFor,
    Woken,
    critical,
    local,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.pipeline.core.records import Request
    from tests.producers.trace.simulated import Step

TIMES = st.integers(1, 5_000)
WAITS = st.builds(Wait, st.sampled_from(["disk", "timer", "network", "other"]), TIMES, TIMES)
PLAIN: st.SearchStrategy[Step] = st.one_of(
    st.builds(Run, TIMES),
    st.builds(Kernel, TIMES, st.sampled_from(["getpid", "openat", "futex"]), st.sampled_from([0, -2, -11])),
    st.builds(Interrupted, TIMES, st.integers(0, 100)),
    st.builds(Inline, TIMES),
    st.builds(Preempted, TIMES),
    st.builds(Woken, TIMES),
    WAITS,
)


def waits_for(steps: st.SearchStrategy[Step]) -> st.SearchStrategy[Step]:
    return st.builds(
        WaitFor,
        st.lists(steps, max_size=5).map(tuple),
        TIMES,
        TIMES,
        st.sampled_from(["pipe", "futex", "loopback"]),
        TIMES,
        st.none() | WAITS,
        st.booleans(),
    )


STEPS: st.SearchStrategy[Step] = st.recursive(PLAIN, lambda inner: PLAIN | waits_for(inner), max_leaves=12)
REQUESTS = st.lists(st.tuples(st.integers(0, 50_000), st.lists(STEPS, min_size=1, max_size=8)), min_size=1, max_size=4)


def analysed(stage: Stage, *, size: int = 1 << 30) -> list[Request]:
    analysis = Analysis()
    requests = [request for batch in stage.batches(size) for request in analysis.feed(batch)]
    requests += analysis.finish()
    assert analysis.report.out_of_step == 0
    assert analysis.report.warnings == ()
    return requests


@given(requests=REQUESTS, known=st.booleans(), size=st.sampled_from([1, 7, 1 << 30]))
def test_each_state_has_the_time_that_it_was_given(
    requests: list[tuple[int, list[Step]]], known: bool, size: int
) -> None:
    stage = Stage(known=known)
    expected = {}
    for number, (since, steps) in enumerate(requests):
        begin = 2_000_000 + since
        end = stage.request(stage.actor(f"worker-{number}"), begin, steps, f"shop\tGET /{number}x")
        expected[f"GET /{number}x"] = (begin, end, steps)
    found = analysed(stage, size=size)
    assert {request.name for request in found} == set(expected)
    for request in found:
        begin, end, steps = expected[request.name]
        assert round(request.duration_s * 1e9) == end - begin
        assert nanoseconds(request.times_s) == local(steps)
        assert nanoseconds(request.critical_s) == critical(steps)
        assert sum(round(each.time_s * 1e9) for each in request.spent) == end - begin
        assert request.path[0].begin_s == 0.0
        assert round(request.path[-1].end_s * 1e9) == end - begin
        assert all(one.end_s == two.begin_s for one, two in zip(request.path, request.path[1:], strict=False))
        assert len(request.path) <= 100


@given(requests=REQUESTS, known=st.booleans(), missing=st.sampled_from([0.02, 0.1, 0.5]), seed=st.integers(0, 99))
def test_with_missing_events_times_still_sum_to_the_duration(
    requests: list[tuple[int, list[Step]]], known: bool, missing: float, seed: int
) -> None:
    stage = Stage(known=known)
    for number, (since, steps) in enumerate(requests):
        stage.request(stage.actor(f"worker-{number}"), 2_000_000 + since, steps)
    draw = random.Random(seed)
    boundaries = {Kind.BEGIN, Kind.END}
    stage.events = [each for each in stage.events if each[2] in boundaries or draw.random() > missing]
    analysis = Analysis()
    found = analysis.feed(next(stage.batches())) + analysis.finish()
    assert len(found) + sum(analysis.report.discarded.values()) == len(requests)
    for request in found:
        total = round(request.duration_s * 1e9)
        assert sum(nanoseconds(request.times_s).values()) == total
        assert sum(nanoseconds(request.critical_s).values()) == total
        assert sum(round(each.time_s * 1e9) for each in request.spent) == total


def test_counts_say_how_often_a_state_was_entered() -> None:
    stage = Stage()
    steps: list[Step] = [
        Run(5),
        Interrupted(3),
        Run(5),
        Kernel(4),
        Run(2),
        Wait("disk", 7, 2),
        Run(1),
        Preempted(3),
        Run(1),
    ]
    stage.request(stage.actor("worker"), 2_000_000, steps)
    [request] = analysed(stage)
    # An interrupt is not the thread's doing: what it interrupts is not entered anew.
    assert request.counts == {"RU": 4, "BI": 1, "RS": 1, "BD": 1, "BP": 2}
    assert request.syscalls == ("getpid", "pread64")


@pytest.mark.parametrize(
    ("call", "meanwhile", "times", "critical"),
    [
        pytest.param(
            *("futex", [(25, 1, Kind.WAKE, 2, 1)], {"RU": 25, "RS": 15, "BP": 60}, None),
            id="trap 1: woken before it slept is a wait for the CPU and no link",
        ),
        pytest.param(
            # The waking before the switch was of an earlier wait: another one ends this one.
            *("read", [(25, 1, Kind.WAKE, 2, 1), (80, 1, Kind.WAKE, 2, 1)]),
            *({"RU": 25, "RS": 15, "BT": 50, "BP": 10}, {"RU": 75, "RS": 15, "BP": 10}),
            id="trap 1: one that slept after all is linked",
        ),
        pytest.param(
            # Thread 2 is said to wake at 80, but sleeps from 40 to 200: some event is missing.
            *("read", [(40, 1, Kind.SWITCH, 2, 0, 0, 1), (80, 2, Kind.WAKE, 2, 1), (200, 2, Kind.WAKE, 9, 2)]),
            *({"RU": 25, "RS": 15, "BT": 50, "BP": 10}, None),
            id="trap 2: a waker that itself waits longer explains nothing",
        ),
        pytest.param(
            *("clock_nanosleep", [], {"RU": 25, "RS": 15, "BS": 60}, None),
            id="trap 4: without timers a sleep is one all the same",
        ),
    ],
)
def test_what_a_thread_waited_for(
    call: str, meanwhile: list[tuple[int, ...]], times: dict[str, int], critical: dict[str, int] | None
) -> None:
    rows = Rows("worker", "other")
    with rows.waiting(call):
        for ts, cpu, kind, *numbers in meanwhile:
            rows(ts, cpu, Kind(kind), *numbers)
    assert rows.sets() == (times, times if critical is None else critical)


def test_trap_2_two_that_wait_for_each_other_at_one_time_end() -> None:
    rows = Rows("worker", "other")
    rows(10, 0, Kind.BEGIN, 1)
    rows(20, 0, Kind.SWITCH, 1, 0, 0, 1)
    rows(30, 1, Kind.SWITCH, 2, 0, 0, 1)
    rows(80, 1, Kind.WAKE, 1, 2)
    rows(80, 0, Kind.WAKE, 2, 1)
    rows(80, 0, Kind.SWITCH, 0, 1, text="worker")
    rows(80, 1, Kind.SWITCH, 0, 2, text="other")
    rows(110, 0, Kind.END, 1)
    assert rows.sets()[0] == {"RU": 40, "BT": 60}


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(
    ("kind", "number", "text", "state"),
    [
        (Kind.IRQ_ENTER, 30, "virtio1-req.0", "BD"),
        (Kind.IRQ_ENTER, 31, "nvme0q1", "BD"),
        (Kind.IRQ_ENTER, 33, "eth0-rx-0", "BN"),
        (Kind.IRQ_ENTER, 236, "local_timer", "BS"),
        (Kind.IRQ_ENTER, 9, "acpi", "BI"),
        (Kind.SOFTIRQ_ENTER, 1, "", "BS"),
        (Kind.SOFTIRQ_ENTER, 3, "", "BN"),
        (Kind.SOFTIRQ_ENTER, 4, "", "BD"),
        (Kind.SOFTIRQ_ENTER, 9, "", "BI"),
    ],
)
def test_trap_3_what_an_interrupt_wakes_is_not_the_work_of_who_was_interrupted(
    known: bool, kind: Kind, number: int, text: str, state: str
) -> None:
    hard = kind == Kind.IRQ_ENTER
    flags = (Flags.HARD if hard else Flags.SOFT) | Flags.KNOWN if known else 0
    rows = Rows("worker", "innocent", flags=flags & Flags.KNOWN)
    with rows.waiting("read"):
        rows(78, 1, kind, 2, number, text=text, flags=flags)
        rows(80, 1, Kind.WAKE, 2, 1, flags=flags)
        rows(82, 1, Kind.IRQ_EXIT if hard else Kind.SOFTIRQ_EXIT, 2, number, flags=flags)
    expected = {"RU": 25, "RS": 15, state: 50, "BP": 10}
    assert rows.sets() == (expected, expected)


def test_trap_4_a_timer_that_expires_in_an_interrupt_of_another_name_is_one() -> None:
    rows = Rows("worker")
    with rows.waiting("epoll_wait"):
        rows(78, 0, Kind.IRQ_ENTER, 0, 48, text="arch_sys_counter", flags=5)
        rows(79, 0, Kind.TIMER_ENTER, 0, flags=5)
        rows(80, 0, Kind.WAKE, 0, 1, flags=5)
        rows(81, 0, Kind.TIMER_EXIT, 0, flags=5)
        rows(82, 0, Kind.IRQ_EXIT, 0, 48, flags=5)
    assert rows.sets()[0] == {"RU": 25, "RS": 15, "BS": 50, "BP": 10}


@pytest.mark.parametrize(
    ("since", "expected"),
    [
        # The thread that sends runs the receiving side itself, in its system call.
        (Kind.SYSCALL_ENTER, ({"RU": 25, "RS": 15, "BT": 50, "BP": 10}, {"RU": 65, "RS": 25, "BP": 10})),
        # The same soft interrupt right after a hard one comes from outside.
        (Kind.IRQ_EXIT, ({"RU": 25, "RS": 15, "BN": 50, "BP": 10},) * 2),
    ],
)
def test_trap_5_loopback_is_received_in_the_sender(
    since: Kind, expected: tuple[dict[str, int], dict[str, int]]
) -> None:
    rows = Rows("worker", "redis-server")
    with rows.waiting("recvfrom"):
        if since == Kind.IRQ_EXIT:
            rows(70, 1, Kind.IRQ_ENTER, 2, 33, text="eth0", flags=5)
            rows(72, 1, Kind.IRQ_EXIT, 2, 33, text="eth0", flags=5)
        else:
            rows(70, 1, Kind.SYSCALL_ENTER, 2, text="sendto")
        rows(78, 1, Kind.SOFTIRQ_ENTER, 2, 3, flags=6)
        rows(80, 1, Kind.WAKE, 2, 1, flags=6)
        rows(82, 1, Kind.SOFTIRQ_EXIT, 2, 3, flags=6)
    assert rows.sets() == expected


def test_trap_5_across_machines_a_packet_leads_to_its_sender() -> None:
    rows = Rows()
    for host in ("web", "db"):
        rows(0, 0, Kind.SWITCH, 0, 1, text="nginx" if host == "web" else "mariadbd", host=host)
    rows(10, 0, Kind.BEGIN, 1, host="web")
    rows(20, 0, Kind.SYSCALL_ENTER, 1, text="recvfrom", host="web")
    rows(30, 0, Kind.SWITCH, 1, 0, 0, 1, host="web")
    rows(50, 0, Kind.SYSCALL_ENTER, 1, text="sendto", host="db")
    rows(60, 0, Kind.NET_SEND, 1, 4711, host="db")
    rows(62, 0, Kind.SYSCALL_EXIT, 1, text="sendto", host="db")
    rows(70, 0, Kind.IRQ_ENTER, 0, 33, text="eth0", flags=5, host="web")
    rows(71, 0, Kind.IRQ_EXIT, 0, 33, flags=5, host="web")
    rows(72, 0, Kind.SOFTIRQ_ENTER, 0, 3, flags=6, host="web")
    rows(75, 0, Kind.NET_RECEIVE, 0, 4711, flags=6, host="web")
    rows(80, 0, Kind.WAKE, 0, 1, flags=6, host="web")
    rows(82, 0, Kind.SOFTIRQ_EXIT, 0, 3, flags=6, host="web")
    rows(90, 0, Kind.SWITCH, 0, 1, text="nginx", host="web")
    rows(95, 0, Kind.SYSCALL_EXIT, 1, text="recvfrom", host="web")
    rows(110, 0, Kind.END, 1, host="web")
    # In the local set it is the network, whether the other machine was traced or not.
    request = rows.one()
    assert rows.sets() == (
        {"RU": 25, "RS": 15, "BN": 50, "BP": 10},
        {"RU": 45, "RS": 25, "BN": 20, "BP": 10},
    )
    assert request.host == "web"
    assert request.threads == ("nginx[1]", "db/mariadbd[1]")
    assert ("BN", "recvfrom", "db/mariadbd") in [(each.state, each.syscall, each.by) for each in request.spent]


def test_trap_6_an_interrupt_takes_time_only_when_it_has_ended_and_an_inline_one_takes_none() -> None:
    rows = Rows("worker")
    rows(10, 0, Kind.BEGIN, 1)
    rows(20, 0, Kind.IRQ_ENTER, 1, 236, text="local_timer", flags=5)
    rows(30, 0, Kind.IRQ_EXIT, 1, 236, flags=5)
    rows(30, 0, Kind.SOFTIRQ_ENTER, 1, 9, flags=6)
    rows(35, 0, Kind.SOFTIRQ_EXIT, 1, 9, flags=6)
    rows(40, 0, Kind.SYSCALL_ENTER, 1, text="sendto")
    rows(42, 0, Kind.SOFTIRQ_ENTER, 1, 3, flags=6)
    rows(48, 0, Kind.SOFTIRQ_EXIT, 1, 3, flags=6)
    rows(50, 0, Kind.SYSCALL_EXIT, 1, text="sendto")
    # The end of this one is missing: its duration is unknown.
    rows(60, 0, Kind.IRQ_ENTER, 1, 30, text="virtio1-req.0", flags=5)
    rows(70, 0, Kind.SWITCH, 1, 2, 1, text="other")
    rows(80, 0, Kind.SWITCH, 2, 1, 1, text="worker")
    rows(110, 0, Kind.END, 1)
    assert rows.sets()[0] == {"RU": 65, "RS": 10, "BI": 15, "BP": 10}


def test_trap_7_a_thread_id_that_is_used_again_is_another_thread() -> None:
    rows = Rows("worker", "short")
    with rows.waiting("wait4"):
        rows(80, 1, Kind.EXIT, 2)
        rows(82, 1, Kind.WAKE, 2, 1)
        rows(85, 1, Kind.SWITCH, 2, 3, 0, 16, text="parent")
        # Number 2 is given to a new one at once, which sleeps.
        rows(86, 1, Kind.FORK, 3, 2, 2, text="fresh")
        rows(87, 1, Kind.SWITCH, 3, 2, 0, 1, text="fresh")
        rows(88, 1, Kind.SWITCH, 2, 0, 0, 1)
    request = rows.one()
    assert rows.sets() == ({"RU": 25, "RS": 15, "BT": 52, "BP": 8}, {"RU": 77, "RS": 15, "BP": 8})
    assert request.threads == ("worker[1]", "short[2]")


@pytest.mark.parametrize("parts", [1, 2, 500])
def test_a_wait_in_parts_at_one_futex_is_one_wait(parts: int) -> None:
    # As of an interpreter's lock: it times out, others are woken, and it is taken up again at once, until another
    # thread hands the lock over.
    rows = Rows("python", "gc")
    rows(0, 1, Kind.NAMED, -1, 2, 1, text="gc")
    rows(1_000, 0, Kind.BEGIN, 1)
    at = 1_000
    for _ in range(parts):
        rows(at, 0, Kind.SYSCALL_ENTER, 1, 202, 0x7F04, 137, text="futex")
        rows(at + 10, 0, Kind.SWITCH, 1, 0, 0, 1)
        rows(at + 9_000, 0, Kind.IRQ_ENTER, 0, 236, text="local_timer", flags=5)
        rows(at + 9_000, 0, Kind.TIMER_ENTER, 0, flags=5)
        rows(at + 9_000, 0, Kind.WAKE, 0, 1, flags=5)
        rows(at + 9_000, 0, Kind.IRQ_EXIT, 0, flags=5)
        rows(at + 9_100, 0, Kind.SWITCH, 0, 1, text="python")
        rows(at + 9_200, 0, Kind.SYSCALL_EXIT, 1, 202, -110, text="futex")
        rows.call(at + 9_300, at + 9_400, 0, 1, "futex", 202, 0x7F08, 129)
        at += 10_000
    rows(at, 0, Kind.SYSCALL_ENTER, 1, 202, 0x7F00, 137, text="futex")
    rows(at + 10, 0, Kind.SWITCH, 1, 0, 0, 1)
    rows(at + 4_000, 1, Kind.WAKE, 2, 1)
    rows(at + 4_100, 0, Kind.SWITCH, 0, 1, text="python")
    rows(at + 4_200, 0, Kind.SYSCALL_EXIT, 1, 202, 0, text="futex")
    rows.call(at + 5_000, at + 5_100, 0, 1, "getpid", 39, result=1)
    rows(at + 5_200, 0, Kind.END, 1)
    request = rows.one()
    waited = parts * 8_990 + 3_990
    rest = {"BP": 100 * (parts + 1), "RS": 110 * (parts + 1) + 100 * (parts + 1)}
    ran = 5_200 + parts * 10_000 - waited - sum(rest.values())
    assert nanoseconds(request.times_s) == {"BF": waited, **rest, "RU": ran}
    # The critical path is what the other thread did meanwhile.
    assert nanoseconds(request.critical_s) == {**rest, "RU": ran + waited}
    [spent] = [each for each in request.spent if each.state == "BF"]
    assert (spent.by, spent.pid, spent.result, spent.times) == ("gc", 1, "", parts + 1)


def test_a_wait_in_parts_that_times_out_is_still_at_the_futex() -> None:
    rows = Rows("python")
    rows(1_000, 0, Kind.BEGIN, 1)
    for at in (1_000, 11_000):
        rows(at, 0, Kind.SYSCALL_ENTER, 1, 202, 0x7F04, 137, text="futex")
        rows(at + 10, 0, Kind.SWITCH, 1, 0, 0, 1)
        rows(at + 9_000, 0, Kind.TIMER_ENTER, 0, flags=5)
        rows(at + 9_000, 0, Kind.WAKE, 0, 1, flags=5)
        rows(at + 9_100, 0, Kind.SWITCH, 0, 1, text="python")
        rows(at + 9_200, 0, Kind.SYSCALL_EXIT, 1, 202, -110, text="futex")
    rows.call(21_000, 21_100, 0, 1, "getpid", 39, result=1)
    rows(22_000, 0, Kind.END, 1)
    times, path = rows.sets()
    assert times == path
    assert times["BF"] == 2 * 8_990


def test_a_wait_that_times_out_for_good_is_one_for_a_timer() -> None:
    rows = Rows("python", "other")
    rows(1_000, 0, Kind.BEGIN, 1)
    rows(1_000, 0, Kind.SYSCALL_ENTER, 1, 202, 0x7F04, 137, text="futex")
    rows(1_010, 0, Kind.SWITCH, 1, 0, 0, 1)
    rows(9_000, 0, Kind.TIMER_ENTER, 0, flags=5)
    rows(9_000, 0, Kind.WAKE, 0, 1, flags=5)
    rows(9_100, 0, Kind.SWITCH, 0, 1, text="python")
    rows(9_200, 0, Kind.SYSCALL_EXIT, 1, 202, -110, text="futex")
    # Another futex is another matter.
    rows(9_300, 0, Kind.SYSCALL_ENTER, 1, 202, 0x8F04, 137, text="futex")
    rows(9_310, 0, Kind.SWITCH, 1, 0, 0, 1)
    rows(9_400, 1, Kind.WAKE, 2, 1)
    rows(9_410, 0, Kind.SWITCH, 0, 1, text="python")
    rows(9_500, 0, Kind.SYSCALL_EXIT, 1, 202, 0, text="futex")
    rows(9_600, 0, Kind.END, 1)
    times, path = rows.sets()
    assert (times["BS"], times["BF"]) == (7_990, 90)
    assert (path["BS"], path["BF"]) == (7_990, 0)


def test_an_unrecorded_switch_from_the_idle_thread_is_known_by_the_wake_up() -> None:
    # Some kernels do not report each. The CPU was idle, and an interrupt told it that a thread may run.
    rows = Rows("worker", "other")
    rows(10, 0, Kind.BEGIN, 1)
    rows(20, 0, Kind.SYSCALL_ENTER, 1, text="read")
    rows(30, 0, Kind.SWITCH, 1, 0, 0, 1)
    rows(60, 1, Kind.WAKE, 2, 1)
    rows(70, 0, Kind.IRQ_ENTER, 0, 251, text="call_function_single", flags=5)
    rows(72, 0, Kind.IRQ_EXIT, 0, 251, flags=5)
    rows(95, 0, Kind.SYSCALL_EXIT, 1, text="read")
    rows(110, 0, Kind.END, 1)
    assert rows.sets() == ({"RU": 25, "RS": 33, "BT": 30, "BP": 12}, {"RU": 55, "RS": 33, "BP": 12})


def test_a_chain_of_two_hundred_wakings_is_followed() -> None:
    steps: Sequence[Step] = (Run(5),)
    for _ in range(200):
        steps = (WaitFor(tuple(steps), 1, 1),)
    stage = Stage()
    stage.request(stage.actor("worker"), 2_000_000, steps)
    [request] = analysed(stage)
    assert nanoseconds(request.critical_s) == critical(steps) == {"RU": 5, "RS": 200, "BP": 200}


def test_an_interrupt_inside_of_another_takes_nothing_more() -> None:
    """Where events are missing, two may seem to end at once."""
    cpu, pieces = Processor(0), list[Piece]()
    cpu.interrupts = [(10, 5, "timer"), (10, 7, "net"), (15, 12, "timer")]
    thread = Thread("web-1", 7, Process(7), 0)
    _interrupted(pieces, (thread, 0, 20, RU, None, cpu, None, ""))
    assert [piece[1:4] for piece in pieces] == [(0, 5, RU), (5, 10, BI), (10, 12, RU), (12, 15, BI), (15, 20, RU)]
