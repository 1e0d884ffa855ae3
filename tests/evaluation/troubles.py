"""Programs that go wrong in front of a real agent: when it noticed, and what it said they were doing."""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from laggard.producers.system.proc import parse_pressure
from tests.evaluation.watched import agent, middle, put_first, table
from tests.misbehaving.programs import (
    burning_java,
    burning_python,
    compiled,
    disk_limit,
    memory_limit,
    misbehaving,
    write_uncached,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from laggard.pipeline.core.records.diagnosis import Stack
    from tests.evaluation.watched import Agent
    from tests.misbehaving.programs import Misbehaving

    Command = Sequence[str | Path]

MIB: Final = 1 << 20
CPUS: Final = os.cpu_count() or 1
WRITERS: Final = 8 * CPUS
SWEEPERS: Final = 2 * CPUS
"""So many wait: where a CPU of a host has something else to do, one thread that waits is not all of its pressure."""

KEPT_APART: Final = ("-XX:CompileCommand=quiet", "-XX:CompileCommand=dontinline,Burning::grind")
"""As in the C programs: a function that was compiled into its caller goes by that one's name."""

DURATION_S: Final = 5.0
"""S1's, and the default of `cpu.duration`."""

SETTLE_S: Final = 1.0
"""Between the start of a program and its trouble."""

WARM_S: Final = 40.0
CALM_S: Final = 7.0
"""Between a warm-up and the trouble: an event of the warm-up is over then."""

NOTICED_S: Final = 60.0
"""Within which a trouble has to be told, at all."""

BUSY_S: Final = 8.0
"""For how long it lasts behind that."""

CLOSED_S: Final = 20.0
"""Within which it has to be told that it is over."""


@dataclass(frozen=True)
class Trouble:
    """A program and how it goes wrong.

    Attributes:
        told: what it is, for the table.
        reason: the condition by which it has to be found.
        command: gives what to run, with a folder for its files.
        settings: of the agent, where they are not the default ones.
        crowd: whether several threads do the same, which have the same name.
        calls: system calls in which a thread waits that goes wrong by waiting.
        prepare: what is done before with a program that is idle, and is idle again behind that.

    """

    told: str
    reason: str
    command: Callable[[Path], AbstractContextManager[Command]]
    settings: Mapping[str, str] = field(default_factory=dict)
    crowd: bool = False
    calls: tuple[str, ...] = ()
    prepare: Callable[[Misbehaving], None] = lambda _: None


@dataclass(frozen=True)
class Run:
    """What came of one.

    Attributes:
        after_s: from its true beginning to the event; None where there was none.
        is_first: whether the thread that went wrong is the first of the diagnosis.
        named: of that thread's samples, those that name the right function.
        samples: all of them.
        methods: what looked.
        value: the measure of the condition.
        sampler: CPU time of the sampler per time, of one core.
        stopped: the share of time for which the process was stopped for it.
        closed_s: from its true end to the event's.

    """

    after_s: float | None
    is_first: bool = False
    named: int = 0
    samples: int = 0
    methods: tuple[str, ...] = ()
    value: float = 0.0
    sampler: float = 0.0
    stopped: float = 0.0
    closed_s: float | None = None


def _of(*command: str | Path) -> Callable[[Path], AbstractContextManager[Command]]:
    @contextmanager
    def given(_: Path) -> Iterator[Command]:
        yield command

    return given


@contextmanager
def _writing(folder: Path) -> Iterator[Command]:
    # Where files are all there, nothing but their data is written: who waits for a journal waits for no disk, to Linux.
    for number in range(WRITERS):
        write_uncached(folder / f"written.{number}", MIB)
    with disk_limit(folder, MIB) as within:
        yield [*within, compiled("writing", f"-DWRITERS={WRITERS}", "-DBLOCKS=16"), folder / "written"]


@contextmanager
def _thrashing(folder: Path) -> Iterator[Command]:
    data = write_uncached(folder / "data", 36 * MIB)
    with memory_limit(32 * MIB) as within:
        yield [*within, compiled("thrashing", f"-DSWEEPERS={SWEEPERS}"), data]


def _thrash(program: Misbehaving) -> None:
    """Let it go round its pages until the kernel knows them, which takes some seconds."""
    program.tell("busy")
    until = time.monotonic() + WARM_S
    while _memory_pressure(1.0) < 0.8:
        if time.monotonic() > until:
            raise RuntimeError(f"expected a memory pressure of 80 % within {WARM_S:g} s, got less")
    program.tell("idle")
    time.sleep(CALM_S)


def _memory_pressure(over_s: float) -> float:
    """The share of the next time in which some task of the host waits for memory."""
    path = Path("/proc/pressure/memory")
    before, begun = parse_pressure(path.read_bytes(), str(path))["some"], time.monotonic()
    time.sleep(over_s)
    return (parse_pressure(path.read_bytes(), str(path))["some"] - before) / 1e6 / (time.monotonic() - begun)


NAMES: Final = ("c", "java", "python", "disk", "memory")


def troubles() -> dict[str, Trouble]:
    """All of them, by name; makes what they need. A burner has a thread for each CPU, or S1's 85 % cannot be had."""
    return {
        "c": Trouble("C, a thread for each CPU", "cpu", _of(compiled("burning", f"-DGRINDERS={CPUS}")), crowd=True),
        "java": Trouble("Java, likewise", "cpu", _of(*burning_java(*KEPT_APART), str(CPUS)), crowd=True),
        "python": Trouble(
            "Python, a thread among idle ones", "single_cpu", _of(*burning_python()), {"cpu_conditions": "single_cpu"}
        ),
        "disk": Trouble(
            f"C, {WRITERS} threads write past the page cache, 1 MiB/s allowed",
            "io_pressure",
            _writing,
            crowd=True,
            calls=("pwrite64", "fdatasync"),
        ),
        "memory": Trouble(
            f"C, {SWEEPERS} threads read 36 MiB that they have mapped, 32 allowed",
            "memory_pressure",
            _thrashing,
            {"cpu_conditions": "memory_pressure"},
            crowd=True,
            prepare=_thrash,
        ),
    }


def run_all(names: Sequence[str], runs: int, settings: Mapping[str, str]) -> str:
    """Let each of them go wrong a number of times; the table."""
    known = troubles()
    rows = []
    for name in names:
        trouble = known[name]
        # Not /tmp, which may be memory: reading and writing has to reach a disk.
        with tempfile.TemporaryDirectory(prefix="laggard-", dir="/var/tmp") as folder:
            found = run(trouble, runs, Path(folder), settings)
        rows.append(_row(trouble, found))
    head = ["program", "found by", "event after", "within 5 to 6 s", "thread first", "function", "methods", "sampler"]
    return table([*head, "stopped", "over after"], rows)


def run(trouble: Trouble, runs: int, folder: Path, settings: Mapping[str, str]) -> list[Run]:
    """Let it go wrong a number of times in front of one agent."""
    state = folder / "state"
    state.mkdir()
    found = []
    with agent(state, **{**trouble.settings, **settings}) as watching, trouble.command(folder) as command:
        for number in range(runs):
            found.append(_run(trouble, command, watching))
            print(f"{trouble.told}, {number + 1}: {found[-1]}", flush=True)
    return found


def _run(trouble: Trouble, command: Command, watching: Agent) -> Run:
    with misbehaving(command, busy=False, start_new_session=True) as program:
        put_first(program.pid)
        time.sleep(SETTLE_S)
        trouble.prepare(program)
        begun = time.time()
        program.tell("busy")
        first = watching.wait_for(program.pid, "opened", begun, NOTICED_S)
        if first is None or first.reason != trouble.reason:
            print(f"  expected an event by {trouble.reason}, got {first and first.reason}", flush=True)
            return Run(None)
        time.sleep(BUSY_S)
        ended = time.time()
        program.tell("idle")
        closed = watching.wait_for(program.pid, "closed", ended, CLOSED_S)
        last = closed or watching.diagnoses(program.pid, begun)[-1]
        hot = _hot(program, crowd=trouble.crowd)
    high = [phase for phase in last.phases if phase.high]
    threads = [thread for phase in high for thread in phase.threads if thread.tid in hot]
    samples = [stack for thread in threads for stack in thread.stacks]
    burns = trouble.reason in {"cpu", "single_cpu"}
    if burns:
        samples = [stack for stack in samples if stack.state == "running"]
    named = [stack for stack in samples if _is_named(stack, program.function, trouble.calls, burns=burns)]
    length_s = last.ts - high[0].begin_ts
    return Run(
        high[0].begin_ts - begun,
        all(phase.threads[0].tid in hot for phase in high),
        sum(stack.samples for stack in named),
        sum(stack.samples for stack in samples),
        last.methods,
        last.value,
        last.sampler_cpu_s / length_s,
        last.stopped_s / length_s,
        None if closed is None else last.ts - ended,
    )


def _is_named(stack: Stack, function: str, calls: Sequence[str], *, burns: bool) -> bool:
    """Whether it is in the function itself, whatever interrupts it; for one that waits, in what waits there for it."""
    if burns:
        own = (location.function for location in stack.locations if location.module != "[kernel]")
        return next(own, "") == function
    return stack.system_call in calls or any(location.function == function for location in stack.locations)


def _hot(program: Misbehaving, *, crowd: bool) -> set[int]:
    """The threads that go wrong."""
    tasks = Path(f"/proc/{program.pid}/task")
    name = (tasks / str(program.tid) / "comm").read_text()
    if not crowd:
        return {program.tid}
    return {int(task.name) for task in tasks.iterdir() if (task / "comm").read_text() == name}


def _row(trouble: Trouble, found: Sequence[Run]) -> list[object]:
    there = [each for each in found if each.after_s is not None]
    afters = [each.after_s for each in there if each.after_s is not None]
    in_time = sum(DURATION_S <= round(after, 2) <= DURATION_S + 1.0 for after in afters)
    samples = sum(each.samples for each in there)
    shares = [each.named / each.samples for each in there if each.samples]
    return [
        trouble.told,
        f"`{trouble.reason}` at {middle([each.value for each in there])}",
        f"{middle(afters)} s",
        f"{in_time} of {len(found)}",
        f"{sum(each.is_first for each in there)} of {len(found)}",
        f"{sum(each.named for each in there) / samples:.1%} of {samples:,}; least {min(shares):.1%}"
        if samples
        else "-",
        ", ".join(dict.fromkeys(method for each in there for method in each.methods)),
        middle([each.sampler for each in there], ".1%"),
        middle([each.stopped for each in there], ".2%"),
        f"{middle([each.closed_s for each in there if each.closed_s is not None], '.1f')} s",
    ]
