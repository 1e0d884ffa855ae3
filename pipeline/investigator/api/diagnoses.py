"""The diagnosis of one process: in words, as in `laggard diagnose`, and as a flame graph."""

from __future__ import annotations

import math
import time
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec

from laggard.pipeline.explaining.explain import printable
from laggard.pipeline.history.report import Page
from laggard.pipeline.investigator.endpoint import (
    Answer,
    Endpoint,
    HostName,
    Number,
    Question,
    RowId,
    Seconds,
    Sentence,
    Text,
    Time,
)
from laggard.pipeline.methods.diagnoses.flame_graph import boxes, colour, functions, stacked, widest
from laggard.pipeline.methods.diagnoses.folded import phase_label
from laggard.pipeline.methods.diagnoses.hottest import cpu_s
from laggard.pipeline.methods.diagnoses.page import Shown, diagnosis_lines
from laggard.pipeline.methods.diagnoses.stacks import KERNEL
from laggard.pipeline.methods.diagnoses.words import did, sentence
from laggard.pipeline.methods.incidents.diagnosed import Recorded
from laggard.pipeline.web.errors import RequestError

if TYPE_CHECKING:
    from laggard.pipeline.core.records.diagnosis import Diagnosis, Phase
    from laggard.pipeline.investigator.reading import Reading
    from laggard.pipeline.methods.diagnoses.flame_graph import Placed

MOST_LOOKED: Final = 2_000
"""The most diagnoses of a host that are searched for one, the newest ones: each record is some 20 kB."""

MOST_BOXES: Final = 4_000
"""The most boxes of a flame graph, the widest ones."""

MOST_FUNCTIONS: Final = 30
"""The most rows of the table of functions."""

WIDTH: Final = 100
"""The columns of the text."""

Numbered = Annotated[int, msgspec.Meta(ge=0, le=100_000)]


class DiagnosisPhase(Answer, frozen=True):
    """A phase of high use of a process, or the dip between two of them."""

    number: Annotated[int, msgspec.Meta(description="the number of the phase; the first one is 1")]
    label: Annotated[str, msgspec.Meta(description="the label of the phase: `phase 1`, `dip 2`")]
    high: Annotated[
        bool, msgspec.Meta(description="whether it is a phase of high use; false for a dip between two of them")
    ]
    begin_ts: Seconds
    end_ts: Seconds
    samples: Annotated[int, msgspec.Meta(description="the number of rounds in which its threads were sampled")]
    cores: Annotated[
        Number,
        msgspec.Meta(
            description="the mean CPU use in cores: the CPU time of its threads by its duration; null if it is unknown"
        ),
    ]
    did: Annotated[str, msgspec.Meta(description="the activity of the process in plain words; empty without samples")]


class DiagnosisThread(Answer, frozen=True):
    """A thread of the process, over all phases."""

    tid: Annotated[int, msgspec.Meta(description="the id of the thread on the host")]
    name: Annotated[str, msgspec.Meta(description="the name of the thread")]
    cpu_s: Annotated[float, msgspec.Meta(description="the CPU time of the thread, in seconds")]


class FlameBox(Answer, frozen=True):
    """A function in one stack of the flame graph."""

    label: Annotated[
        str,
        msgspec.Meta(description="the function as the flame graph names it; at the bottom the thread: `worker (4712)`"),
    ]
    module: Annotated[
        str, msgspec.Meta(description="the file of the code; empty for the kernel, and where it is unknown")
    ]
    begin: Annotated[
        float, msgspec.Meta(description="the left edge of the box, in samples from the left edge of the graph")
    ]
    samples: Annotated[int, msgspec.Meta(description="the number of samples in it, its width")]
    below: Annotated[int, msgspec.Meta(description="the number of boxes below it")]
    fill: Annotated[str, msgspec.Meta(description="its color, as in CSS")]


class FlameFunction(Answer, frozen=True):
    """A function of the flame graph, over all stacks."""

    label: Annotated[str, msgspec.Meta(description="the function as the flame graph names it, or a thread")]
    samples: Annotated[
        int,
        msgspec.Meta(description="the number of samples that have the function; a recursion counts once"),
    ]
    own: Annotated[int, msgspec.Meta(description="the number of samples in which the function is the innermost one")]


class FlameGraph(Answer, frozen=True):
    """A flame graph: functions on their callers, as wide as their number of samples."""

    samples: Annotated[int, msgspec.Meta(description="the number of samples in the whole graph")]
    boxes: Annotated[list[FlameBox], msgspec.Meta(description="the boxes, each after the box below it")]
    boxes_left_out: Annotated[
        int, msgspec.Meta(description="the number of further boxes that are left out, the narrowest ones")
    ]
    functions: Annotated[list[FlameFunction], msgspec.Meta(description="the functions, largest `own` first")]
    functions_left_out: Annotated[int, msgspec.Meta(description="the number of further functions that are left out")]


class DiagnosisPage(Answer, frozen=True):
    """The recorded diagnosis of a process."""

    id: Annotated[str, msgspec.Meta(description="the id of the diagnosis: the same in all its records")]
    host: HostName
    row: RowId
    name: Annotated[str, msgspec.Meta(description="the name of the process")]
    pid: Annotated[int, msgspec.Meta(description="the process id")]
    command: Annotated[str, msgspec.Meta(description="the command line of the process; empty if it is unknown")]
    sentence: Sentence
    text: Annotated[str, msgspec.Meta(description="the whole diagnosis as text, as `laggard diagnose` prints it")]
    utc_offset_s: Annotated[
        int, msgspec.Meta(description="the offset from UTC of the local times in `sentence` and `text`, in seconds")
    ]
    phases: Annotated[list[DiagnosisPhase], msgspec.Meta(description="the phases in the order of time")]
    threads: Annotated[list[DiagnosisThread], msgspec.Meta(description="the threads, most CPU time first")]
    running: Annotated[
        int, msgspec.Meta(description="the number of samples of running threads in the requested phase and thread")
    ]
    blocked: Annotated[
        int, msgspec.Meta(description="the number of samples of blocked threads in the requested phase and thread")
    ]
    state: Annotated[
        Literal["running", "blocked"], msgspec.Meta(description="the state of the threads in the flame graph")
    ]
    flames: Annotated[FlameGraph, msgspec.Meta(description="the flame graph of the requested phase, thread and state")]


class DiagnosisQuestion(Question, frozen=True):
    """A diagnosis, by its id or a prefix of it, and the part of it that the flame graph shows."""

    id: Annotated[
        str, msgspec.Meta(min_length=1, max_length=64, description="the id of the diagnosis, or the beginning of it")
    ]
    host: Annotated[Text, msgspec.Meta(description="the name of the host; empty for the host of this page")] = ""
    at: Annotated[
        Time | None,
        msgspec.Meta(
            description="a time during the diagnosis, seconds since the Unix epoch, which speeds up the search"
        ),
    ] = None
    phase: Annotated[Numbered, msgspec.Meta(description="the number of the phase; 0 for all phases")] = 0
    thread: Annotated[int | None, msgspec.Meta(description="the id of the thread; by default all threads")] = None
    state: Annotated[
        Literal["", "running", "blocked"],
        msgspec.Meta(
            description="the state of the threads; empty for `running`, or for `blocked` if only blocked threads were "
            "sampled"
        ),
    ] = ""


def diagnosis(reading: Reading, question: DiagnosisQuestion) -> DiagnosisPage:
    """Return the diagnosis of a process."""
    found = _find(reading, question.host or reading.host, question.id, question.at)
    phases: tuple[Phase, ...] = found.phases
    if question.phase:
        if question.phase > len(phases):
            raise RequestError(404, f"there is no phase {question.phase}", f"one of 1 to {len(phases)}, or 0 for all")
        phases = (found.phases[question.phase - 1],)
    running, blocked = (stacked(phases, state, question.thread) for state in ("running", "blocked"))
    state = question.state or ("running" if running.samples or not blocked.samples else "blocked")
    root = running if state == "running" else blocked
    placed = boxes(root, 0.0) if root.samples else []
    shown, counted = widest(placed, MOST_BOXES), functions(root)
    return DiagnosisPage(
        id=found.id,
        host=found.host,
        row=found.row,
        name=found.name,
        pid=found.pid,
        command=found.command,
        sentence=sentence(found),
        text="\n".join(line.plain for line in diagnosis_lines(found, Page(WIDTH), Shown())),
        utc_offset_s=time.localtime(found.ts).tm_gmtoff,
        phases=[_phase(each, number) for number, each in enumerate(found.phases, 1)],
        threads=_threads(found),
        running=running.samples,
        blocked=blocked.samples,
        state=state,
        flames=FlameGraph(
            samples=root.samples,
            boxes=[_box(each, cold=state == "blocked") for each in shown],
            boxes_left_out=len(placed) - len(shown),
            functions=[
                FlameFunction(printable(each.label), each.samples, each.own) for each in counted[:MOST_FUNCTIONS]
            ],
            functions_left_out=max(len(counted) - MOST_FUNCTIONS, 0),
        ),
    )


def _find(reading: Reading, host: str, identity: str, ts: float | None) -> Diagnosis:
    """Return the diagnosis with this id or prefix of one. Raises `RequestError` (404) if there is none."""
    recorded = Recorded(reading.bus, reading.topics, host)
    then = [] if ts is None else recorded.around(ts, ts)
    all_of_them = chain(then, islice(recorded.newest(), MOST_LOOKED))
    found = next((each for each in all_of_them if each.id.startswith(identity.lower())), None)
    if found is None:
        expected = "the id of one that is recorded of this host"
        raise RequestError(404, f"no diagnosis of {host[:100]!a} has an id that begins with {identity!a}", expected)
    return found


def _phase(phase: Phase, number: int) -> DiagnosisPhase:
    length_s = phase.end_ts - phase.begin_ts
    return DiagnosisPhase(
        number=number,
        label=phase_label(phase, number),
        high=phase.high,
        begin_ts=phase.begin_ts,
        end_ts=phase.end_ts,
        samples=phase.samples,
        cores=sum(map(cpu_s, phase.threads)) / length_s if length_s > 0.0 else math.nan,
        did=did(phase) if phase.threads else "",
    )


def _threads(recorded: Diagnosis) -> list[DiagnosisThread]:
    used: dict[int, float] = {}
    names: dict[int, str] = {}
    for phase in recorded.phases:
        for each in phase.threads:
            used[each.tid] = used.get(each.tid, 0.0) + cpu_s(each)
            names[each.tid] = each.name
    return [DiagnosisThread(tid, names[tid], used[tid]) for tid in sorted(used, key=lambda tid: (-used[tid], tid))]


def _box(placed: Placed, *, cold: bool) -> FlameBox:
    label, module = placed.label, placed.box.module
    return FlameBox(
        label=printable(label),
        module="" if module == KERNEL else printable(module),
        begin=placed.x,
        samples=placed.box.samples,
        below=placed.below,
        fill=colour(label, module, cold=cold),
    )


ENDPOINTS: Final = (
    Endpoint(
        "/diagnosis",
        "The diagnosis of one process: in words, and as a flame graph.",
        DiagnosisPage,
        diagnosis,
        DiagnosisQuestion,
    ),
)
