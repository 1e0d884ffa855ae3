"""Diagnoses as JSON: every field, what is written comes back, and what is refused."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laggard.pipeline.core.records.diagnosis import Diagnosis, Location, Phase, Progress, Stack, ThreadState, ThreadUse
from laggard.pipeline.core.records.diagnosis_json import (
    diagnosis_id,
    diagnosis_object,
    read_diagnosis,
    write_diagnosis,
)
from laggard.pipeline.core.records.errors import RecordError
from laggard.pipeline.core.records.limits import MAX_COMMAND, MAX_DIAGNOSIS_BYTES, MAX_PID
from tests.pipeline.core.records.conftest import JUNK, KEYS, NAMES, TEXTS, TIMES, VALIDATORS

PLACE = "diagnoses[0]@7"
SPIN = Location("spin", "/opt/hog", 0x1D7B, 42)
MAIN = Location("main", "/opt/hog", 0x1E00)
MADE = Location(offset=0x7F0000001000)
DIAGNOSIS = Diagnosis(
    id=diagnosis_id("web-1", "hog[4711@99]", "cpu", 1.7e9),
    progress="extended",
    host="web-1",
    ts=1.7e9 + 20.0,
    row="hog[4711@99]",
    name="hog",
    pid=4711,
    command="/opt/hog --fast",
    reason="cpu",
    value=0.97,
    threshold=0.85,
    methods=("proc", "perf"),
    notes=("perf: no symbols of /opt/hog",),
    phases=(
        Phase(
            high=True,
            begin_ts=1.7e9,
            end_ts=1.7e9 + 10.0,
            samples=20,
            threads=(
                ThreadUse(
                    tid=4712,
                    name="worker-1",
                    entry=MAIN,
                    first_ts=1.7e9,
                    last_ts=1.7e9 + 10.0,
                    user_s=9.5,
                    system_s=0.25,
                    samples=20,
                    stacks=(
                        Stack((SPIN, MAIN), 18),
                        Stack((MADE, MAIN), 1),
                        Stack((), 1, "blocked", "futex_wait_queue", "futex"),
                    ),
                ),
            ),
            left_out=3,
        ),
        Phase(high=False, begin_ts=1.7e9 + 10.0, end_ts=1.7e9 + 20.0, samples=0, threads=()),
    ),
    sampler_cpu_s=0.125,
    stopped_s=0.0,
    complete=False,
)
WRITTEN = {
    "kind": "diagnosis",
    "ts": 1.7e9 + 20.0,
    "id": "91e4031a-d753-5968-ab3a-fcb3a0b08702",
    "progress": "extended",
    "host": "web-1",
    "row": "hog[4711@99]",
    "name": "hog",
    "pid": 4711,
    "command": "/opt/hog --fast",
    "reason": "cpu",
    "value": 0.97,
    "threshold": 0.85,
    "methods": ["proc", "perf"],
    "notes": ["perf: no symbols of /opt/hog"],
    "sampler_cpu_s": 0.125,
    "stopped_s": 0.0,
    "complete": False,
    "locations": [
        {"function": "main", "module": "/opt/hog", "offset": 0x1E00, "line": None},
        {"function": "spin", "module": "/opt/hog", "offset": 0x1D7B, "line": 42},
        {"function": "", "module": "", "offset": 0x7F0000001000, "line": None},
    ],
    "phases": [
        {
            "high": True,
            "begin_ts": 1.7e9,
            "end_ts": 1.7e9 + 10.0,
            "samples": 20,
            "left_out": 3,
            "threads": [
                {
                    "tid": 4712,
                    "name": "worker-1",
                    "entry": 0,
                    "first_ts": 1.7e9,
                    "last_ts": 1.7e9 + 10.0,
                    "user_s": 9.5,
                    "system_s": 0.25,
                    "samples": 20,
                    "stacks": [
                        {"locations": [1, 0], "samples": 18, "state": "running", "wait_channel": "", "system_call": ""},
                        {"locations": [2, 0], "samples": 1, "state": "running", "wait_channel": "", "system_call": ""},
                        {
                            "locations": [],
                            "samples": 1,
                            "state": "blocked",
                            "wait_channel": "futex_wait_queue",
                            "system_call": "futex",
                        },
                    ],
                }
            ],
        },
        {
            "high": False,
            "begin_ts": 1.7e9 + 10.0,
            "end_ts": 1.7e9 + 20.0,
            "samples": 0,
            "left_out": 0,
            "threads": [],
        },
    ],
}

COUNTS = st.integers(0, (1 << 31) - 1)
SECONDS = st.floats(0.0, allow_infinity=False)
LOCATIONS = st.builds(Location, TEXTS, TEXTS, st.integers(-1, (1 << 64) - 1), COUNTS)
STACKS = st.builds(
    Stack, st.lists(LOCATIONS, max_size=3).map(tuple), COUNTS, st.sampled_from(get_args(ThreadState)), TEXTS, TEXTS
)
THREADS = st.builds(
    ThreadUse, st.integers(0, MAX_PID), TEXTS, LOCATIONS, TIMES, TIMES, SECONDS, SECONDS, COUNTS,
    st.lists(STACKS, max_size=2).map(tuple),
)  # fmt: skip
PHASES = st.builds(Phase, st.booleans(), TIMES, TIMES, COUNTS, st.lists(THREADS, max_size=2).map(tuple), COUNTS)
DIAGNOSES = st.builds(
    Diagnosis,
    id=st.builds(diagnosis_id, KEYS, NAMES, NAMES, TIMES),
    progress=st.sampled_from(get_args(Progress)),
    host=KEYS,
    ts=TIMES,
    row=NAMES,
    name=NAMES,
    pid=st.integers(0, MAX_PID),
    command=TEXTS,
    reason=NAMES,
    value=st.floats(allow_infinity=False),
    threshold=st.floats(allow_infinity=False),
    methods=st.lists(TEXTS, max_size=3).map(tuple),
    notes=st.lists(TEXTS, max_size=3).map(tuple),
    phases=st.lists(PHASES, max_size=3).map(tuple),
    sampler_cpu_s=SECONDS,
    stopped_s=SECONDS,
    complete=st.booleans(),
)


def test_the_fields() -> None:
    assert json.loads(write_diagnosis(DIAGNOSIS)) == WRITTEN
    assert next(iter(diagnosis_object(DIAGNOSIS))) == "kind"
    assert read_diagnosis(json.dumps(WRITTEN), PLACE) == DIAGNOSIS


@given(DIAGNOSES)
def test_what_is_written_is_what_the_schema_says_and_comes_back(diagnosis: Diagnosis) -> None:
    written = write_diagnosis(diagnosis)
    VALIDATORS["diagnosis"].validate(json.loads(written))
    # NaN differs from itself; the text that Python has for it does not.
    assert repr(read_diagnosis(written, PLACE)) == repr(diagnosis)


@given(DIAGNOSES, st.text(max_size=5), JUNK, st.data())
def test_any_field_may_hold_anything(diagnosis: Diagnosis, name: str, value: Any, data: st.DataObject) -> None:
    written = diagnosis_object(diagnosis)
    read_or_refuse(json.dumps(written | {data.draw(st.sampled_from([*written, name])): value}))
    read_or_refuse(json.dumps(value))
    for part in ("phases", "locations"):
        read_or_refuse(json.dumps(written | {part: [*written[part], value]}))
        read_or_refuse(json.dumps(written | {part: [{**each, name or "threads": value} for each in written[part]]}))


def read_or_refuse(text: str) -> None:
    """Any other error than the one is for the test to fail on."""
    try:
        read_diagnosis(text, PLACE)
    except RecordError as error:
        if error.place != PLACE or not str(error).isprintable():
            raise AssertionError(repr(str(error))) from error


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"kind": "anomaly"}, "field 'kind': expected 'diagnosis', got 'anomaly'"),
        ({"progress": "begun"}, "field 'progress': expected 'opened' or 'extended' or 'closed', got 'begun'"),
        ({"pid": True}, "field 'pid': expected an integer from 0 to 4194304, got True"),
        ({"host": ""}, "field 'host': expected text of 1 to 253 characters"),
        ({"sampler_cpu_s": -1}, "field 'sampler_cpu_s': expected a finite number of at least 0, got -1"),
        ({"methods": ["proc", 7]}, "field 'methods[1]': expected text"),
        ({"methods": "proc"}, "field 'methods': expected a list of at most 16 texts, got 'proc'"),
        ({"locations": []}, "field 'phases[0].threads[0].entry': expected an integer from 0 to -1, got 0"),
        (
            {"locations": WRITTEN["locations"][:1]},  # type: ignore[index]
            "field 'phases[0].threads[0].stacks[0].locations': expected a list of integers from 0 to 0, got list",
        ),
    ],
    ids=str,
)
def test_what_is_refused_and_how_that_is_said(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(RecordError) as refused:
        read_diagnosis(json.dumps(WRITTEN | changed), PLACE)
    assert str(refused.value).startswith(f"{PLACE}: {said}")


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"ts": math.nan}, "ts"),
        ({"sampler_cpu_s": math.inf}, "sampler_cpu_s"),
        ({"stopped_s": -1.0}, "stopped_s"),
        ({"command": "a" * (MAX_COMMAND + 1)}, "command"),
        ({"name": "\udcff"}, "name"),
        ({"row": ""}, "row"),
        ({"methods": ("a", "b\0c")}, "methods[1]"),
        ({"phases": (replace(DIAGNOSIS.phases[1], samples=-1),)}, "phases[0].samples"),
    ],
    ids=str,
)
def test_nothing_is_written_that_could_not_be_read(changed: dict[str, Any], field: str) -> None:
    with pytest.raises(RecordError) as refused:
        write_diagnosis(replace(DIAGNOSIS, **changed))
    assert refused.value.field == field


def test_a_diagnosis_has_a_bound() -> None:
    (thread,) = DIAGNOSIS.phases[0].threads
    threads = tuple(replace(thread, tid=tid, name="x" * 15) for tid in range(1, 4000))
    large = replace(DIAGNOSIS, phases=(replace(DIAGNOSIS.phases[0], threads=threads),))
    with pytest.raises(RecordError, match="expected a diagnosis of at most 1,000,000 bytes, got 1,"):
        write_diagnosis(large)
    with pytest.raises(RecordError, match="at most 1,000,000 bytes"):
        read_diagnosis(b" " * (MAX_DIAGNOSIS_BYTES + 1), PLACE)


def test_fields_of_a_later_version_are_skipped() -> None:
    added = WRITTEN | {"added": 1, "locations": [{**each, "added": 1} for each in WRITTEN["locations"]]}  # type: ignore[attr-defined]
    assert read_diagnosis(json.dumps(added), PLACE) == DIAGNOSIS


def test_an_id_follows_from_host_row_reason_and_beginning() -> None:
    ids = {
        diagnosis_id(*arguments)
        for arguments in [
            ("a", "r", "cpu", 1.0), ("b", "r", "cpu", 1.0), ("a", "s", "cpu", 1.0), ("a", "r", "quota", 1.0),
            ("a", "r", "cpu", 2.0),
        ]
    }  # fmt: skip
    assert len(ids) == 5
    # Pinned: whoever has stored it finds it again with every later version.
    assert DIAGNOSIS.id == WRITTEN["id"]
