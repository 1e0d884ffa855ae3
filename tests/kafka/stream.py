"""A stream of small frames of many hosts, each record from its number alone; and what has to come out of it.

Among the frames are spikes, rows that come and go, gaps, marks, frames that come twice, frames that come late and
records that are none. The expected output is asked of tasks themselves, without a bus, a group or a process.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from laggard.pipeline.core.bus import Incoming, Outgoing, Partition
from laggard.pipeline.core.engine.publishing import outgoing
from laggard.pipeline.core.engine.snapshots import decode_state
from laggard.pipeline.core.engine.tasks import Tasks
from laggard.pipeline.core.records import Decoder, Frame, Mark, RecordError, encode
from laggard.pipeline.core.topics import ANOMALIES, COUNTERS, DEAD_LETTERS, INCIDENTS, Topics
from laggard.pipeline.manifest import read_settings
from laggard.pipeline.methods.incidents.stage import Joining
from laggard.pipeline.settings.reading import Given
from laggard.pipeline.wiring import wire
from tests.evaluation.kill import matrix

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from laggard.pipeline.core.bus import Bus

HOSTS = 20
TICK_S = 5.0

SETTINGS: Mapping[str, object] = {
    "operators": "gaussian,cpu,saturation",
    "gaussian.context": "20m",
    "gaussian.minimum_features": 5,
    "gaussian.false_alarms": "10/minute",
    "snapshot.records": 40,
}
"""How workers work on such a stream: with many anomalies and many snapshots."""

WIRED = wire(read_settings(environ={}, flags=[Given(name, value, "--set") for name, value in SETTINGS.items()]))

Told = tuple[bytes, tuple[tuple[str, bytes], ...], int]
"""An output as others see it: value, headers, time in milliseconds."""

JOINING = Joining()


def records(topics: Topics, start: int, stop: int, began: float) -> Iterator[Outgoing]:
    """The records of a number of ticks and hosts; some numbers have two. `began` is the time of the first tick."""
    topic = topics.name(COUNTERS)
    for number in range(start, stop):
        host = f"host-{number % HOSTS}"
        ts = began + TICK_S * (number // HOSTS)
        if number >= HOSTS and number % 41 == 17:
            yield Outgoing(topic, host, encode(Mark(host, ts, f"slow {number}", number)), ts)
            continue
        if number >= HOSTS and number % 199 == 5:
            yield Outgoing(topic, host, np.random.default_rng(number).bytes(40), ts)
            continue
        layout, values = matrix(number, number // 600)
        scope = "process" if number % 5 else "host"
        if number >= 20 * HOSTS and number % 149 == 7:
            ts -= 19 * TICK_S
        record = Outgoing(topic, host, encode(Frame("host", host, scope, ts, number, layout, values)), ts)
        yield record
        if number % 101 == 3:
            yield record


@dataclass(frozen=True)
class Result:
    """What came out of a stream.

    Attributes:
        outputs: by topic without its prefix and key, in the order of their offsets; of incidents by `INCIDENTS` and
            key, for where they stand between anomalies depends on who was quicker.
        states: by operator and key, the last snapshot's content.
        counted: by key, how many records its state of the first operator has taken.

    """

    outputs: dict[tuple[str, str], list[Told]]
    states: dict[tuple[str, str], bytes]
    counted: dict[str, int]

    @property
    def told(self) -> int:
        """How many outputs there are."""
        return sum(map(len, self.outputs.values()))


def committed(bus: Bus, topics: Topics) -> Result:
    """What is committed on a bus; all workers have been stopped and have saved their states."""
    outputs: dict[tuple[str, str], list[Told]] = defaultdict(list)
    for topic in (ANOMALIES, DEAD_LETTERS):
        for partition in bus.partitions(topics.name(topic)):
            for one in bus.read(partition, 0):
                place = INCIDENTS if is_incident(one.headers) else topic.name
                outputs[place, one.key].append((one.value, one.headers, round(one.ts * 1000)))
    states = {
        (stage.name, snapshot.key): snapshot.value
        for stage in (*WIRED, JOINING)
        for partition in bus.partitions(topics.name(stage.topic))
        for snapshot in bus.snapshots(stage.snapshots, partition)
        if snapshot.key
    }
    return _result(outputs, states)


def is_incident(headers: Iterable[tuple[str, bytes]]) -> bool:
    """Whether these are the headers of a record of an incident."""
    return ("ce_type", b"laggard.incident") in headers


Inputs = dict[Partition, list[Incoming]]


def read_inputs(bus: Bus, topics: Topics) -> Inputs:
    """What is in the input now."""
    return {partition: list(bus.read(partition, 0)) for partition in bus.partitions(topics.name(COUNTERS))}


def expected(inputs: Inputs, topics: Topics) -> Result:
    """What the tasks of one partition after the other make of this, undisturbed."""
    outputs: dict[tuple[str, str], list[Told]] = defaultdict(list)
    states: dict[tuple[str, str], bytes] = {}
    for number, (partition, read) in enumerate(inputs.items()):
        tasks = Tasks([wired.task(partition) for wired in WIRED])
        joining = JOINING.task(Partition(topics.name(ANOMALIES), number))
        for record in read:
            tasks.process(record)
        for output in tasks.outputs:
            one = outgoing(output, topics)
            name = one.topic.removeprefix(topics.prefix)
            outputs[name, one.key].append((one.value, one.headers, round(one.ts * 1000)))
            if name == ANOMALIES.name:
                joining.process(Incoming(joining.partition, joining.position, one.key, one.value, one.ts, one.headers))
        for output in joining.outputs:
            one = outgoing(output, topics)
            outputs[INCIDENTS, one.key].append((one.value, one.headers, round(one.ts * 1000)))
        tasks.save_all()
        joining.states.save_all(joining.position)
        for task in (*tasks.each, joining):
            while saved := task.states.take(task.position):
                states |= {(task.stage.name, each.key): each.value for each in saved if each.key}
    return _result(outputs, states)


def _result(outputs: Mapping[tuple[str, str], list[Told]], states: dict[tuple[str, str], bytes]) -> Result:
    first = {key: value for (name, key), value in states.items() if name == WIRED[0].name}
    counted = {key: int(decode_state(value, key)["records"]) for key, value in first.items()}
    return Result(dict(outputs), states, counted)


def due(count: int) -> dict[str, int]:
    """How many records each host's state has to have taken: everything but what is no record, late, or twice there."""
    numbers = {number for number in range(count) if number < HOSTS or number % 199 != 5 or number % 41 == 17}
    late = {number for number in numbers if number >= 20 * HOSTS and number % 149 == 7 and number % 41 != 17}
    return {f"host-{host}": sum(number % HOSTS == host for number in numbers - late) for host in range(HOSTS)}


def sequences(bus: Bus, topics: Topics) -> dict[str, list[int]]:
    """By key, the numbers of the records in the input, in their order; of those that can be read."""
    found: dict[str, list[int]] = defaultdict(list)
    for partition in bus.partitions(topics.name(COUNTERS)):
        decoder = Decoder()
        for record in bus.read(partition, 0):
            try:
                received = decoder.decode(record.value, "the input")
            except RecordError:
                continue
            assert isinstance(received, Frame | Mark)
            found[record.key].append(received.sequence)
    return dict(found)


def differences(got: Result, want: Result) -> list[str]:
    """What is not the same, in words; nothing when all is, bit for bit."""
    found = []
    for place in sorted(got.outputs.keys() | want.outputs.keys()):
        one, other = got.outputs.get(place, []), want.outputs.get(place, [])
        if one != other:
            more, less = _beyond(one, other), _beyond(other, one)
            how = f"{more} too many, {less} missing" if more or less else "another order"
            found.append(f"{place[0]} of {place[1]!r}: got {len(one)}, expected {len(other)}: {how}")
    return found + [
        f"the state of {key} of {name}: {got.counted.get(key)} records, expected {want.counted.get(key)}"
        for name, key in sorted(got.states.keys() | want.states.keys())
        if got.states.get((name, key)) != want.states.get((name, key))
    ]


def _beyond(one: Sequence[Told], other: Sequence[Told]) -> int:
    left = list(other)
    beyond = 0
    for told in one:
        if told in left:
            left.remove(told)
        else:
            beyond += 1
    return beyond
