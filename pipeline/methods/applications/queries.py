"""Queries of performance models in their topic, and of the present state of an application in its worker.

With 500 applications, reading 10,000 models of 20 kB costs 2.0 s of CPU on the embedded bus; those of one application
cost 0.04 s.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from laggard.pipeline.core.records import Frame, RecordError
from laggard.pipeline.core.records.models import ModelOutput
from laggard.pipeline.core.records.outputs import read_output
from laggard.pipeline.core.topics import APPLICATIONS, MODELS
from laggard.pipeline.history.rebuilding import rebuild
from laggard.pipeline.history.series import Reader
from laggard.pipeline.methods.applications.intervals import COUNTERS
from laggard.pipeline.methods.applications.metrics import metric_id
from laggard.pipeline.methods.applications.stage import RegressionTask

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from laggard.pipeline.core.bus import Bus
    from laggard.pipeline.core.topics import Topics
    from laggard.pipeline.methods.applications.application import Application
    from laggard.pipeline.methods.applications.stage import RegressionStage

MOST_RECORDS: Final = 10_000
"""The most models that are read of each partition, the newest ones: a bound for large topics."""

LATEST_RECORDS: Final = 1_000
"""The number of an application's newest records that are searched for metrics. Each of its hosts is among them."""


@dataclass(frozen=True, slots=True)
class Course:
    """The models of one performance metric of one application.

    Attributes:
        models: the models, at least one: the present one first, then those before it.
        lately: the number of models that were built since the queried time.

    """

    models: tuple[ModelOutput, ...]
    lately: int

    @property
    def present(self) -> ModelOutput:
        """The present model."""
        return self.models[0]

    @property
    def before(self) -> ModelOutput | None:
        """The model before the present one; None if unknown."""
        return self.models[1] if len(self.models) > 1 else None


def past_models(bus: Bus, topics: Topics, since: float, application: str | None = None) -> list[Course]:
    """Return the models of all applications, or of one, in the order of their names.

    Args:
        bus: the bus with the models.
        topics: the names of the topics.
        since: a time, seconds since the Unix epoch. The result has the present model and the one before that; for one
            application also all models since this time.
        application: the name of the application; None for all.

    """
    topic = topics.name(MODELS)
    partitions = bus.partitions(topic) if application is None else [bus.partition_of(topic, application)]
    values: dict[tuple[str, str], list[tuple[float, bytes]]] = defaultdict(list)
    lately: dict[tuple[str, str], int] = defaultdict(int)
    for partition in partitions:
        for record in Reader(bus, partition, application).newest(MOST_RECORDS):
            if (performance := _performance(record.value)) is None:
                continue
            recent = values[record.key, performance]
            recent.append((record.ts, record.value))
            lately[record.key, performance] += record.ts >= since
            if len(recent) > 2 and (application is None or recent[-3][0] < since):
                del recent[-3]
    courses = []
    for which in sorted(values):
        models = [model for _, value in reversed(values[which]) if (model := _read(value, topic)) is not None]
        if models:
            courses.append(Course(tuple(models), lately[which]))
    return courses


def replayed_models(lines: Iterable[bytes], place: str, application: str | None = None) -> list[Course]:
    """Return the models in the output of `laggard replay --json`; other outputs are skipped.

    Raises `RecordError` that names a line that is no output.
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
    """Return the performance metric of a model, without checking all of it; None if it is no model of laggard."""
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


def application_now(bus: Bus, topics: Topics, stage: RegressionStage, application: str) -> Application | None:
    """Return the state of an application after all of its records; None without any record of it.

    The task of the worker rebuilds it from the newest snapshot and the records after that, at most those of the last
    four hours.
    """
    reader = Reader(bus, bus.partition_of(topics.name(stage.topic), application), application)
    task = stage.task(reader.partition, live=False)
    assert isinstance(task, RegressionTask)
    rebuild(task, reader, bus.bounds(reader.partition)[1])
    return task.states.get(application)


def known_metrics(bus: Bus, topics: Topics, application: str) -> Sequence[str]:
    """Return the metrics in an application's newest records, as `ROW:FEATURE`, sorted by name."""
    reader = Reader(bus, bus.partition_of(topics.name(APPLICATIONS), application), application)
    found: set[str] = set()
    layouts: set[bytes] = set()
    for _, one in islice(reader.backwards(bus.bounds(reader.partition)[1]), LATEST_RECORDS):
        if isinstance(one, Frame) and one.scope in COUNTERS and one.layout.packed not in layouts:
            layouts.add(one.layout.packed)
            found.update(metric_id(row, feature) for row in one.layout.rows for feature in one.layout.features)
    return sorted(found)
