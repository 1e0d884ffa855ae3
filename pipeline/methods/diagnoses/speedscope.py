"""A diagnosis in the format of speedscope (https://www.speedscope.app): one profile for each thread of each phase.

The format is that of https://www.speedscope.app/file-format-schema.json.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from laggard.pipeline.explaining.explain import printable
from laggard.pipeline.methods.diagnoses.folded import phase_label, thread_label
from laggard.pipeline.methods.diagnoses.stacks import frame_label, frames

if TYPE_CHECKING:
    from laggard.pipeline.core.records.diagnosis import Diagnosis, Location, ThreadUse

SCHEMA: Final = "https://www.speedscope.app/file-format-schema.json"


def speedscope(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return the content of the file, as an object for `json.dumps`.

    Weights are numbers of samples. Samples of one stack are adjacent, the most frequent stack first, since a diagnosis
    does not store their order in time. Threads are in the order of their use.
    """
    known: dict[tuple[str, str], int] = {}
    profiles = [
        _profile(thread, [phase_label(phase, number)] if len(diagnosis.phases) > 1 else [], known)
        for number, phase in enumerate(diagnosis.phases, 1)
        for thread in phase.threads
    ]
    return {
        "$schema": SCHEMA,
        "exporter": f"laggard@{version('laggard')}",
        "name": printable(f"{diagnosis.name} (pid {diagnosis.pid}) on {diagnosis.host}"),
        "activeProfileIndex": 0,
        "shared": {"frames": [_frame(*each) for each in known]},
        "profiles": profiles,
    }


def _profile(thread: ThreadUse, several: list[str], known: dict[tuple[str, str], int]) -> dict[str, Any]:
    """Return the profile of one thread, and add its new functions to the known ones, with their numbers."""
    weights = [stack.samples for stack in thread.stacks]
    return {
        "type": "sampled",
        "name": printable(", ".join([*several, thread_label(thread)])),
        "unit": "none",
        "startValue": 0,
        "endValue": sum(weights),
        "samples": [
            [known.setdefault(_key(location), len(known)) for location in frames(stack)] for stack in thread.stacks
        ],
        "weights": weights,
    }


def _key(location: Location) -> tuple[str, str]:
    return printable(frame_label(location)), printable(location.module)


def _frame(name: str, file: str) -> dict[str, Any]:
    return {"name": name} | ({"file": file} if file else {})
