"""Every stage that has states, each with a stream of records that makes it find something."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from laggard.pipeline.core.bus import Incoming, Partition
from laggard.pipeline.core.engine.publishing import outgoing
from laggard.pipeline.core.topics import ANOMALIES, Topics
from laggard.pipeline.methods.incidents.stage import Joining
from tests.evaluation import applications_kill, kill, pools_kill, requests_kill

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from laggard.pipeline.core.bus import Outgoing
    from laggard.pipeline.core.engine.stage import Output, Stage
    from tests.evaluation.rekeying_kill import Case

TOPICS: Final = Topics()
STAGES: Final[dict[str, Stage]] = {
    **{wired.name: wired for wired in kill.WIRED},
    **{case.operator.name: case.operator for case in (pools_kill.CASE, applications_kill.CASE, requests_kill.CASE)},
    "incidents": Joining(),
}
NUMBERS: Final = {"covariance": 900, "regression": 1200, "requests": 2400}
"""By stage, how many numbers its records are of; 3,000 for the others."""


def partition_of(stage: Stage) -> Partition:
    """The input of a stage."""
    return Partition(TOPICS.name(stage.topic), 0)


def placed(records: Iterable[Outgoing], partition: Partition) -> list[Incoming]:
    """Records as they are read, one right behind the other."""
    return [Incoming(partition, at, one.key, one.value, one.ts, one.headers) for at, one in enumerate(records)]


def published(outputs: Iterable[Output]) -> list[Outgoing]:
    """Outputs as they are published."""
    return [outgoing(each, TOPICS) for each in outputs]


def records_of(stage: Stage) -> list[Incoming]:
    """The input of a stage."""
    numbers = NUMBERS.get(stage.name, 3000)
    if stage.name == "incidents":
        found: list[Outgoing] = []
        tasks = [wired.task(Partition(TOPICS.name(wired.topic), 0)) for wired in kill.WIRED]
        for record in placed(kill.records(0, numbers), tasks[0].partition):
            for task in tasks:
                task.process(record)
                found += [each for each in published(task.outputs) if each.topic == TOPICS.name(ANOMALIES)]
                task.outputs.clear()
        return placed(found, partition_of(stage))
    for case in (pools_kill.CASE, applications_kill.CASE, requests_kill.CASE):
        if case.operator.name == stage.name:
            return placed(_rekeyed(case, numbers), partition_of(stage))
    return placed(kill.records(0, numbers), partition_of(stage))


def _rekeyed(case: Case, numbers: int) -> list[Outgoing]:
    """A case's records on the topic of its operator: its own, and those that other stages make."""
    own = TOPICS.name(case.operator.topic)
    others = [stage.task(case.input) for stage in case.stages if stage.topic == case.source]
    found: list[Outgoing] = []
    for record in case.records(0, numbers):
        if record.topic == own:
            found.append(record)
            continue
        for task in others:
            task.process(Incoming(case.input, task.position, record.key, record.value, record.ts, record.headers))
            found += published(task.outputs)
            task.outputs.clear()
    return found


def parts(records: Sequence[Incoming]) -> tuple[Sequence[Incoming], Sequence[Incoming]]:
    """About the first quarter of the records, behind which some wait for others, and the rest."""
    middle = len(records) // 4 + 2
    return records[:middle], records[middle:]
