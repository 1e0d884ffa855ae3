"""The cost of laggard's own processes on a host."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from laggard.pipeline.core.own import NAMES, PART_OF
from laggard.pipeline.core.records import Frame
from laggard.pipeline.core.topics import COUNTERS
from laggard.pipeline.explaining.explain import printable
from laggard.pipeline.history.series import Reader
from laggard.pipeline.investigator.endpoint import Answer, Endpoint, HostName, Number, Question, RowId, WantedHost
from laggard.pipeline.web.errors import RequestError

if TYPE_CHECKING:
    from laggard.pipeline.investigator.reading import Reading


PROCESS: Final = "process"
CPU: Final = ("cpu_user_ratio", "cpu_system_ratio")
MEMORY: Final = "memory_rss_bytes"

_LOOKED_BACK: Final = 64  # the newest records of a host that are searched for its processes


class Part(Answer, frozen=True):
    """A process of laggard."""

    row: RowId
    name: Annotated[str, msgspec.Meta(description="the name of the process: `laggard-worker`")]
    part: Annotated[
        str, msgspec.Meta(description="the part of laggard that it belongs to, named as its command: `work`")
    ]
    cpu_ratio: Annotated[
        float | None, msgspec.Meta(description="the CPU use as a share of one core; null if it is not recorded")
    ]
    memory_rss_bytes: Annotated[
        Number, msgspec.Meta(description="the resident memory in bytes; null if it is not recorded")
    ]


class Cost(Answer, frozen=True):
    """The use of resources by laggard's own processes on a host."""

    host: HostName
    ts: Annotated[float, msgspec.Meta(description="the time of the frame, seconds since the Unix epoch")]
    parts: Annotated[list[Part], msgspec.Meta(description="the processes of laggard, sorted by part, then by id")]
    features: Annotated[
        list[str], msgspec.Meta(description="the names of the counters of the processes to query with `/series`")
    ]


class CostQuestion(Question, frozen=True):
    """The name of a host."""

    host: WantedHost = ""


# Cost.


def cost(reading: Reading, question: CostQuestion) -> Cost:
    """Return the use of resources by laggard's own processes, from the newest frame of a host."""
    host = reading.choose_host(question.host)
    partition = reading.bus.partition_of(reading.topics.name(COUNTERS), host)
    reader = Reader(reading.bus, partition, host)
    newest = reader.backwards(reading.bus.bounds(partition)[1])
    for count, (_, frame) in enumerate(newest):
        if isinstance(frame, Frame) and frame.scope == PROCESS and frame.key == host:
            return Cost(host, frame.ts, _parts(frame), [*CPU, MEMORY])
        if count >= _LOOKED_BACK:
            break
    raise RequestError(404, f"no processes of host {printable(host[:100])} are recorded lately", "an agent that runs")


def _parts(frame: Frame) -> list[Part]:
    columns = {feature: at for at, feature in enumerate(frame.layout.features)}
    found = []
    for row, name, values in zip(frame.layout.rows, frame.layout.names, frame.values.tolist(), strict=True):
        if (part := PART_OF.get(name)) is not None:
            cpu = [values[columns[feature]] for feature in CPU if feature in columns]
            memory = values[columns[MEMORY]] if MEMORY in columns else math.nan
            found.append(Part(row, name, part, sum(cpu) if cpu else math.nan, memory))
    parts: list[str] = list(NAMES)
    return sorted(found, key=lambda each: (parts.index(each.part), each.row))


ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    Endpoint("/pipeline/cost", "The cost of laggard's own processes on a host.", Cost, cost, CostQuestion),
)
