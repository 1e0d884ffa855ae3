"""Diagnoses as JSON, one object each: what the topic of diagnoses holds, and what other people's tools read.

A location is written once in a record, and stacks refer to it by its place in the list, innermost first: stacks of one
process are made of few functions, and this is a tenth of the bytes. Numbers that JSON does not have are null.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Final, get_args

from laggard.pipeline.records.diagnosis import Diagnosis, Location, Phase, Progress, Stack, ThreadState, ThreadUse
from laggard.pipeline.records.errors import RecordError
from laggard.pipeline.records.fields import Fields
from laggard.pipeline.records.ids import derived_id
from laggard.pipeline.records.limits import (
    MAX_COMMAND,
    MAX_DIAGNOSIS_BYTES,
    MAX_NAME,
    MAX_NOTE,
    MAX_NOTES,
    MAX_PID,
    MAX_SEQUENCE,
)
from laggard.pipeline.records.strict_json import parse_object

if TYPE_CHECKING:
    from collections.abc import Callable

PROGRESSES: Final[tuple[Progress, ...]] = get_args(Progress)
THREAD_STATES: Final[tuple[ThreadState, ...]] = get_args(ThreadState)

MAX_METHODS: Final = 16

_MAX_LINE: Final = (1 << 31) - 1
_MAX_ADDRESS: Final = (1 << 64) - 1
_UNKNOWN: Final = Location()


def diagnosis_id(host: str, row: str, reason: str, begin_ts: float) -> str:
    """The id of the diagnosis of a host's row for an event that began at `begin_ts`, the same whenever it is asked."""
    return derived_id("diagnosis", host, row, reason, begin_ts)


def diagnosis_object(diagnosis: Diagnosis) -> dict[str, Any]:
    """The object that is written."""
    locations: dict[Location, int] = {}

    def place(location: Location) -> int:
        return locations.setdefault(location, len(locations))

    phases = [_phase(phase, place) for phase in diagnosis.phases]
    return {
        "kind": diagnosis.kind,
        "ts": float(diagnosis.ts),
        "id": diagnosis.id,
        "progress": diagnosis.progress,
        "host": diagnosis.host,
        "row": diagnosis.row,
        "name": diagnosis.name,
        "pid": diagnosis.pid,
        "command": diagnosis.command,
        "reason": diagnosis.reason,
        "value": _number(diagnosis.value),
        "threshold": _number(diagnosis.threshold),
        "methods": list(diagnosis.methods),
        "notes": list(diagnosis.notes),
        "sampler_cpu_s": float(diagnosis.sampler_cpu_s),
        "stopped_s": float(diagnosis.stopped_s),
        "complete": bool(diagnosis.complete),
        "locations": [_location(location) for location in locations],
        "phases": phases,
    }


def write_diagnosis(diagnosis: Diagnosis) -> str:
    """The diagnosis as one line of strict JSON, in ASCII and without its end.

    Raises:
        RecordError: it is longer than `MAX_DIAGNOSIS_BYTES`, or a field is what `read_diagnosis` would refuse.

    """
    try:
        text = json.dumps(diagnosis_object(diagnosis), separators=(",", ":"), allow_nan=False)
    except ValueError:
        raise RecordError("", "", "finite numbers, but for value and threshold", "another one") from None
    # What is refused here is a mistake of ours, which the one who reads could only wonder at.
    read_diagnosis(text, "")
    return text


def read_diagnosis(text: str | bytes, place: str) -> Diagnosis:
    """The diagnosis that was written. Fields that are not known are passed over.

    Args:
        text: JSON, as bytes in UTF-8.
        place: where it comes from, for errors.

    Raises:
        RecordError: the text is no strict JSON, longer than `MAX_DIAGNOSIS_BYTES`, of another kind, or a field is not
            what it should be.

    """
    if len(text) > MAX_DIAGNOSIS_BYTES:
        raise RecordError(place, "", f"a diagnosis of at most {MAX_DIAGNOSIS_BYTES:,} bytes", f"{len(text):,}")
    fields = Fields(parse_object(text, place), place)
    fields.choice("kind", (Diagnosis.kind,))
    locations = [_read_location(each) for each in fields.objects("locations")]
    return Diagnosis(
        id=fields.text("id", MAX_NAME, shortest=1),
        progress=fields.choice("progress", PROGRESSES),
        host=fields.key("host"),
        ts=fields.ts("ts"),
        row=fields.text("row", MAX_NAME, shortest=1),
        name=fields.text("name", MAX_NAME, shortest=1),
        pid=fields.integer("pid", 0, MAX_PID),
        command=fields.text("command", MAX_COMMAND),
        # A newer laggard may know more of them.
        reason=fields.text("reason", MAX_NAME, shortest=1),
        value=fields.number("value"),
        threshold=fields.number("threshold"),
        methods=fields.texts("methods", MAX_METHODS, MAX_NAME),
        notes=fields.texts("notes", MAX_NOTES, MAX_NOTE),
        phases=tuple(_read_phase(each, locations) for each in fields.objects("phases")),
        sampler_cpu_s=fields.amount("sampler_cpu_s"),
        stopped_s=fields.amount("stopped_s"),
        complete=fields.boolean("complete"),
    )


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _location(location: Location) -> dict[str, Any]:
    return {
        "function": location.function,
        "module": location.module,
        "offset": None if location.offset < 0 else location.offset,
        "line": location.line or None,
    }


def _phase(phase: Phase, place: Callable[[Location], int]) -> dict[str, Any]:
    return {
        "high": bool(phase.high),
        "begin_ts": float(phase.begin_ts),
        "end_ts": float(phase.end_ts),
        "samples": phase.samples,
        "left_out": phase.left_out,
        "threads": [_thread(thread, place) for thread in phase.threads],
    }


def _thread(thread: ThreadUse, place: Callable[[Location], int]) -> dict[str, Any]:
    return {
        "tid": thread.tid,
        "name": thread.name,
        "entry": None if thread.entry == _UNKNOWN else place(thread.entry),
        "first_ts": float(thread.first_ts),
        "last_ts": float(thread.last_ts),
        "user_s": float(thread.user_s),
        "system_s": float(thread.system_s),
        "samples": thread.samples,
        "stacks": [_stack(stack, place) for stack in thread.stacks],
    }


def _stack(stack: Stack, place: Callable[[Location], int]) -> dict[str, Any]:
    return {
        "locations": [place(location) for location in stack.locations],
        "samples": stack.samples,
        "state": stack.state,
        "wait_channel": stack.wait_channel,
        "system_call": stack.system_call,
    }


def _read_location(fields: Fields) -> Location:
    offset, line = fields.perhaps_integer("offset", 0, _MAX_ADDRESS), fields.perhaps_integer("line", 1, _MAX_LINE)
    return Location(fields.text("function"), fields.text("module"), -1 if offset is None else offset, line or 0)


def _read_phase(fields: Fields, locations: list[Location]) -> Phase:
    return Phase(
        high=fields.boolean("high"),
        begin_ts=fields.ts("begin_ts"),
        end_ts=fields.ts("end_ts"),
        samples=fields.integer("samples", 0, MAX_SEQUENCE),
        threads=tuple(_read_thread(each, locations) for each in fields.objects("threads")),
        left_out=fields.integer("left_out", 0, MAX_SEQUENCE),
    )


def _read_thread(fields: Fields, locations: list[Location]) -> ThreadUse:
    entry = fields.perhaps_integer("entry", 0, len(locations) - 1)
    return ThreadUse(
        tid=fields.integer("tid", 0, MAX_PID),
        name=fields.text("name", MAX_NAME),
        entry=_UNKNOWN if entry is None else locations[entry],
        first_ts=fields.ts("first_ts"),
        last_ts=fields.ts("last_ts"),
        user_s=fields.amount("user_s"),
        system_s=fields.amount("system_s"),
        samples=fields.integer("samples", 0, MAX_SEQUENCE),
        stacks=tuple(_read_stack(each, locations) for each in fields.objects("stacks")),
    )


def _read_stack(fields: Fields, locations: list[Location]) -> Stack:
    return Stack(
        locations=tuple(locations[each] for each in fields.integers("locations", 0, len(locations) - 1)),
        samples=fields.integer("samples", 0, MAX_SEQUENCE),
        state=fields.choice("state", THREAD_STATES),
        wait_channel=fields.text("wait_channel", MAX_NAME),
        system_call=fields.text("system_call", MAX_NAME),
    )
