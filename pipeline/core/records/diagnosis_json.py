"""Diagnoses as JSON, one object each: the records of the topic of diagnoses, for any tool.

A location is written once in a record. Stacks refer to it by its place in the list, the innermost first. The stacks of
one process have few distinct functions, so that this needs a tenth of the bytes. NaN and infinity are null.
"""

from __future__ import annotations

import json
from typing import Any, Final

from laggard.pipeline.core.records.declared import (
    Form,
    Schema,
    Shape,
    amount,
    choice,
    count,
    flag,
    key,
    many,
    number,
    shape,
    text,
    texts,
    time,
)
from laggard.pipeline.core.records.diagnosis import Diagnosis, Location, Phase, Progress, Stack, ThreadState, ThreadUse
from laggard.pipeline.core.records.errors import RecordError
from laggard.pipeline.core.records.fields import Fields
from laggard.pipeline.core.records.ids import derived_id
from laggard.pipeline.core.records.limits import (
    MAX_COMMAND,
    MAX_DIAGNOSIS_BYTES,
    MAX_NAME,
    MAX_NOTE,
    MAX_NOTES,
    MAX_PID,
)
from laggard.pipeline.core.records.strict_json import parse_object

MAX_METHODS: Final = 16

_MAX_LINE: Final = (1 << 31) - 1
_MAX_ADDRESS: Final = (1 << 64) - 1
_UNKNOWN: Final = Location()


def _perhaps(description: str, least: int, most: int, unknown: int) -> Form:
    """Return the form of an integer. The value `unknown` stands for null."""

    def read(fields: Fields, name: str) -> int:
        value = fields.perhaps_integer(name, least, most)
        return unknown if value is None else value

    schema = {"type": ["integer", "null"], "minimum": least, "description": description}
    return Form(schema, read, lambda value: None if value == unknown else value)


LOCATION: Final[Shape[Location]] = shape(
    "location",
    "One function on stacks.",
    Location,
    function=text("Its name; empty without a symbol."),
    module=text(
        "The file that it was mapped from, `[kernel]` or `[vdso]`; for interpreted code its source file; empty outside "
        "of files."
    ),
    offset=_perhaps(
        "The offset in the module in bytes, or the address without a module; null if unknown.",
        0, _MAX_ADDRESS, _UNKNOWN.offset,
    ),
    line=_perhaps("In the source; null where it is not known.", 1, _MAX_LINE, _UNKNOWN.line),
)  # fmt: skip


class _Places:
    """The locations of a record. Stacks refer to them by their places in the list."""

    def __init__(self, locations: list[Location] | None = None) -> None:
        self.locations = locations or []
        self._places: dict[Location, int] = {}

    def _place(self, location: Location) -> int:
        if location not in self._places:
            self._places[location] = len(self._places)
            self.locations.append(location)
        return self._places[location]

    def one(self, description: str) -> Form:
        """Return the form of a location; null if unknown."""

        def read(fields: Fields, name: str) -> Location:
            place = fields.perhaps_integer(name, 0, len(self.locations) - 1)
            return _UNKNOWN if place is None else self.locations[place]

        schema = {"type": ["integer", "null"], "minimum": 0, "description": description}
        return Form(schema, read, lambda location: None if location == _UNKNOWN else self._place(location))

    def several(self, description: str) -> Form:
        """Return the form of locations."""

        def read(fields: Fields, name: str) -> tuple[Location, ...]:
            return tuple(self.locations[each] for each in fields.integers(name, 0, len(self.locations) - 1))

        schema = {"type": "array", "description": description, "items": {"type": "integer", "minimum": 0}}
        return Form(schema, read, lambda locations: list(map(self._place, locations)))


def _forms(places: _Places) -> dict[str, Form]:
    """Return the forms of a diagnosis whose stacks refer to these places."""
    stack = shape(
        "stack",
        "One stack of the thread, and how often it was sampled.",
        Stack,
        locations=places.several("The innermost first, each as its place in the record's `locations`, counted from 0."),
        samples=count("The number of samples there."),
        state=choice("Whether it was running or blocked.", ThreadState),
        wait_channel=text("The kernel's function in which it was blocked; empty while it ran.", MAX_NAME),
        system_call=text("Its system call; empty without one.", MAX_NAME),
    )
    thread = shape(
        "thread",
        "One thread over a phase.",
        ThreadUse,
        tid=count("Its id on the host.", 0, MAX_PID, maximum=MAX_PID),
        name=text("Its own name.", MAX_NAME),
        entry=places.one("Its first function, as a place in the record's `locations`; null if unknown."),
        first_ts=time("The time of its first sample in this phase, seconds since the Unix epoch."),
        last_ts=time("The time of its last sample in this phase."),
        user_s=amount("CPU time in user mode between the two, in seconds."),
        system_s=amount("CPU time in kernel mode between the two, in seconds."),
        samples=count("The number of its samples."),
        stacks=many(stack, "Its stacks, the most frequent first; not all of them."),
    )
    phase = shape(
        "phase",
        "A stretch of high use, or the dip between two of them.",
        Phase,
        high=flag("Whether it is high use."),
        begin_ts=time("Seconds since the Unix epoch."),
        end_ts=time("The end of the phase; while it lasts, the time of its last sample."),
        samples=count("The number of samples."),
        left_out=count("The number of threads with less use that are left out to limit the size of the record."),
        threads=many(thread, "By CPU time, the greatest first."),
    )
    return {
        "ts": time("The time of the record by the clock of the host, seconds since the Unix epoch."),
        "id": text("The id of the diagnosis: the same in all its records.", MAX_NAME, 1, format="uuid"),
        "progress": choice("The progress of the diagnosis.", Progress),
        "host": key("The host of the process. The record's key."),
        "row": text("The process's row in frames and anomalies of its host: `nginx[4711@99]`.", MAX_NAME, 1),
        "name": text("Its name.", MAX_NAME, 1),
        "pid": count("Its id on the host.", 0, MAX_PID, maximum=MAX_PID),
        "command": text("Its command line; empty if unknown.", MAX_COMMAND),
        "reason": text(
            "The condition that started it: `cpu` (the share of all processors), `single_cpu` (of one), `quota` (its "
            "control group is throttled), `io_pressure`, `memory_pressure`; `asked` if a person did. A later version "
            "may have more.",
            MAX_NAME,
            1,
        ),
        "value": number("The value of the condition at its start, as a ratio; null without one."),
        "threshold": number("The threshold of the condition."),
        "methods": texts(
            "The methods that sampled its stacks: `proc`, `perf`, `py-spy`, `eu-stack`, `jcmd`.", MAX_METHODS, MAX_NAME
        ),
        "notes": texts(
            "Gaps in the results and their reasons, for people: the wording may change at any time.",
            MAX_NOTES,
            MAX_NOTE,
        ),
        "sampler_cpu_s": amount("The CPU time of sampling, in seconds, helpers included."),
        "stopped_s": amount("The total time for which the process was stopped, in seconds."),
        "complete": flag("False if it ended early: the process or the agent ended, or a limit was reached."),
        "phases": many(phase, "In the order of time."),
    }


DESCRIPTION: Final = (
    "The diagnosis of one process while it, or its host, was in trouble: its threads, and the stacks of each. It is "
    "published with the first samples (`opened`), at intervals (`extended`), and at its end (`closed`), under one id. "
    "A later record includes the earlier ones, within the limit on its size."
)


def _shape(forms: dict[str, Form]) -> Shape[Diagnosis]:
    return shape(Diagnosis.kind, DESCRIPTION, Diagnosis, **forms)


def diagnosis_schema() -> Schema:
    """Return the JSON Schema of a diagnosis."""
    forms = _forms(_Places())
    phases = forms.pop("phases")
    locations = many(LOCATION, "The functions that stacks and entries refer to, each once.")
    return _shape({**forms, "locations": locations, "phases": phases}).document()


def diagnosis_id(host: str, row: str, reason: str, begin_ts: float) -> str:
    """Return the id of the diagnosis of a host's row for an event that began at `begin_ts`. It is always the same."""
    return derived_id("diagnosis", host, row, reason, begin_ts)


def diagnosis_object(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return the JSON object."""
    places = _Places()
    written = _shape(_forms(places)).write(diagnosis)
    phases = written.pop("phases")
    locations = list(map(LOCATION.write, places.locations))
    return {"kind": diagnosis.kind, **written, "locations": locations, "phases": phases}


def write_diagnosis(diagnosis: Diagnosis) -> str:
    """Return the diagnosis as one line of strict JSON, in ASCII and without the line feed.

    Raises:
        RecordError: it is longer than `MAX_DIAGNOSIS_BYTES`, or `read_diagnosis` would refuse a field.

    """
    text = json.dumps(diagnosis_object(diagnosis), separators=(",", ":"), allow_nan=False)
    # An invalid record is a mistake of laggard: it must fail here, not at its readers.
    read_diagnosis(text, "")
    return text


def read_diagnosis(text: str | bytes, place: str) -> Diagnosis:
    """Return the diagnosis of a text. Unknown fields are ignored.

    Args:
        text: JSON, as bytes in UTF-8.
        place: its origin, for errors.

    Raises:
        RecordError: the text is no strict JSON, longer than `MAX_DIAGNOSIS_BYTES`, of another kind, or a field is
            invalid.

    """
    if len(text) > MAX_DIAGNOSIS_BYTES:
        raise RecordError(place, "", f"a diagnosis of at most {MAX_DIAGNOSIS_BYTES:,} bytes", f"{len(text):,}")
    fields = Fields(parse_object(text, place), place)
    fields.choice("kind", (Diagnosis.kind,))
    places = _Places(list(map(LOCATION.read, fields.objects("locations"))))
    return _shape(_forms(places)).read(fields)
