"""Performance models out of the topic of models, and the state of an application as its worker has it by now.

Of 500 applications, 10,000 models of 20 kB take 2.0 s of CPU on the embedded bus; those of one of them 0.04 s.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from laggard.pipeline.applications.intervals import COUNTERS
from laggard.pipeline.applications.metrics import metric_id
from laggard.pipeline.applications.stage import RegressionTask
from laggard.pipeline.history.rebuilding import rebuild
from laggard.pipeline.history.series import Reader
from laggard.pipeline.records import Frame, RecordError
from laggard.pipeline.records.models import ModelOutput
from laggard.pipeline.records.outputs import read_output
from laggard.pipeline.topics import APPLICATIONS, MODELS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from laggard.pipeline.applications.application import Application
    from laggard.pipeline.applications.stage import Regressing
    from laggard.pipeline.bus import Bus
    from laggard.pipeline.topics import Topics

MOST_RECORDS: Final = 10_000
"""Of each partition the newest, whoever's models they are: a bound on what is read of a large topic."""

LATEST_RECORDS: Final = 1_000
"""So many of an application's newest records tell which metrics there are: each of its hosts is among them."""


@dataclass(frozen=True, slots=True)
class Course:
    """The models of one performance metric of one application.

    Attributes:
        models: the present one first, then those before it, at least one.
        lately: how many were built since the time that was asked about.

    """

    models: tuple[ModelOutput, ...]
    lately: int

    @property
    def present(self) -> ModelOutput:
        """The one that holds."""
        return self.models[0]

    @property
    def before(self) -> ModelOutput | None:
        """The one that it took the place of; None where that is not known."""
        return self.models[1] if len(self.models) > 1 else None


def past_models(bus: Bus, topics: Topics, since: float, application: str | None = None) -> list[Course]:
    """The models of all applications, or of one, in the order of their names.

    Args:
        bus: where they are.
        topics: the names of the topics.
        since: seconds since the Unix epoch: of one application all that were built from then on are given; of all
            applications, and before it, only the present model and the one before that.
        application: which; None for all.

    """
    topic = topics.name(MODELS)
    partitions = bus.partitions(topic) if application is None else [bus.partition_of(topic, application)]
    values: dict[tuple[str, str], list[tuple[float, bytes]]] = defaultdict(list)
    lately: dict[tuple[str, str], int] = defaultdict(int)
    for partition in partitions:
        for record in Reader(bus, partition, application).newest(MOST_RECORDS):
            if (performance := _performance(record.value)) is None:
                continue
            kept = values[record.key, performance]
            kept.append((record.ts, record.value))
            lately[record.key, performance] += record.ts >= since
            if len(kept) > 2 and (application is None or kept[-3][0] < since):
                del kept[-3]
    courses = []
    for which in sorted(values):
        models = [model for _, value in reversed(values[which]) if (model := _read(value, topic)) is not None]
        if models:
            courses.append(Course(tuple(models), lately[which]))
    return courses


def told_models(lines: Iterable[bytes], place: str, application: str | None = None) -> list[Course]:
    """The same out of what `laggard replay --json` printed; other lines of it are passed over.

    Raises `RecordError` naming the line that is none of it.
    """
    found: dict[tuple[str, str], list[ModelOutput]] = defaultdict(list)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        one = read_output(line, f"{place}:{number}")
        if isinstance(one, ModelOutput) and application in {None, one.application}:
            found[one.application, one.performance].insert(0, one)
    return [Course(tuple(found[which]), len(found[which])) for which in sorted(found)]


def _performance(value: bytes) -> str | None:
    """Of which performance metric a model is, without reading all of it; None for what is none of laggard's."""
    try:
        match json.loads(value):
            case {"kind": ModelOutput.kind, "performance": str(performance)}:
                return performance
    except ValueError:
        pass
    return None


def _read(value: bytes, topic: str) -> ModelOutput | None:
    try:
        output = read_output(value, topic)
    except RecordError:
        return None
    return output if isinstance(output, ModelOutput) else None


def application_now(bus: Bus, topics: Topics, stage: Regressing, application: str) -> Application | None:
    """The state of an application after all of its records; None where nothing is recorded of it.

    It comes from the newest snapshot and from the records after it, by the task that the worker drives: of one that was
    never saved, from those of the last four hours.
    """
    reader = Reader(bus, bus.partition_of(topics.name(stage.topic), application), application)
    task = stage.task(reader.partition, live=False)
    assert isinstance(task, RegressionTask)
    rebuild(task, reader, bus.bounds(reader.partition)[1])
    return task.states.get(application)


def known_metrics(bus: Bus, topics: Topics, application: str) -> Sequence[str]:
    """The metrics in an application's newest records, as `ROW:FEATURE`, in the order of their names."""
    reader = Reader(bus, bus.partition_of(topics.name(APPLICATIONS), application), application)
    found: set[str] = set()
    layouts: set[bytes] = set()
    for _, one in islice(reader.backwards(bus.bounds(reader.partition)[1]), LATEST_RECORDS):
        if isinstance(one, Frame) and one.scope in COUNTERS and one.layout.packed not in layouts:
            layouts.add(one.layout.packed)
            found.update(metric_id(row, feature) for row in one.layout.rows for feature in one.layout.features)
    return sorted(found)
