"""The stage that joins anomalies to incidents: it reads the topic that operators write, and writes incidents to it.

It is a task like an operator's. So incidents are as exactly-once as anomalies, survive restarts, and move with their
partition between workers. It uses anomalies and their progress, and counts false incidents by feedback. It skips all
other records, such as rankings and its own incidents.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Unpack

from laggard.pipeline.core.engine.stage import SNAPSHOT_RECORDS, Stage, StageTask
from laggard.pipeline.core.engine.states import FEWEST_RECORDS, States
from laggard.pipeline.core.records.errors import RecordError
from laggard.pipeline.core.records.feedback_output import FeedbackOutput
from laggard.pipeline.core.records.outputs import Anomaly, Progress, read_output
from laggard.pipeline.core.topics import ANOMALIES, INCIDENTS
from laggard.pipeline.methods.incidents.joiner import Joiner
from laggard.pipeline.scoring.observers import Observed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from laggard.pipeline.core.bus import Incoming, Partition
    from laggard.pipeline.core.engine.snapshots import Migration
    from laggard.pipeline.core.engine.stage import TaskOptions
    from laggard.pipeline.core.records import Decoder
    from laggard.pipeline.core.records.feedback import Feedback
    from laggard.pipeline.core.records.frame import KeyedBy
    from laggard.pipeline.core.records.outputs import Incident
    from laggard.pipeline.scoring.observers import Observer

_JOINED: Final = {b"laggard.anomaly", b"laggard.progress", b"laggard.feedback"}
MOST_DISMISSED: Final = 64
"""The most incidents of a key, false by feedback, that are remembered so that each counts once."""

_MAX_KEYS: Final = 16_384
"""The most keys of one task. A key with an incident has some 10 kB, others have next to nothing."""


class Joining(Stage):
    """The stage that joins anomalies."""

    name = INCIDENTS
    topic = ANOMALIES
    leads = True
    state_version = Joiner.state_version
    migrations: Mapping[int, Migration] = {}

    def task(self, partition: Partition, **options: Unpack[TaskOptions]) -> JoiningTask:
        """Make a task for a partition, without any state."""
        return JoiningTask(self, partition, **options)


@dataclass(slots=True, eq=False)
class KeyedIncidents:
    """The incidents of one key.

    Attributes:
        joiners: the joiners by the kind of the key, and by whether the records are live. A snapshot has them under
            `streams`, as an operator's streams, so that migrations find them.
        records: see `KeyState`.
        last_number: see `KeyState`.
        ts: the time of the last anomaly or record of its progress, seconds since the Unix epoch.
        dismissed: the ids of the newest incidents that feedback called false.

    """

    joiners: dict[tuple[KeyedBy, bool], Joiner] = field(default_factory=lambda: defaultdict(Joiner))
    records: int = 0
    last_number: int = -1
    ts: float = 0.0
    dismissed: deque[str] = field(default_factory=lambda: deque(maxlen=MOST_DISMISSED))

    @property
    def awaited_until(self) -> float:
        """Infinite: the operators detect silent keys, by their frames."""
        return math.inf

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""
        return {
            "records": self.records,
            "heard": self.last_number,
            "ts": self.ts,
            **({"dismissed": list(self.dismissed)} if self.dismissed else {}),
            "streams": {
                f"{keyed_by} {'live' if live else 'replayed'}": {
                    "keyed_by": keyed_by,
                    "live": live,
                    "operator": joiner.snapshot(),
                }
                for (keyed_by, live), joiner in self.joiners.items()
            },
        }

    def restore(self, state: dict[str, Any], decoder: Decoder, place: str) -> None:  # noqa: ARG002 - see `KeyState`
        """Restore a `snapshot`. Raises `ValueError` or `KeyError` that names the part that does not fit."""
        self.records, self.last_number, self.ts = int(state["records"]), int(state["heard"]), float(state["ts"])
        self.dismissed.extend(state.get("dismissed", ()))
        for one in state["streams"].values():
            self.joiners[one["keyed_by"], bool(one["live"])].restore(one["operator"])

    def open(self, keyed_by: KeyedBy) -> list[Incident]:
        """Return the open incidents, the oldest first."""
        found = [each for live in (True, False) for each in self.of(keyed_by, live=live)]
        return sorted(found, key=lambda each: each.opened_ts)

    def of(self, keyed_by: KeyedBy, *, live: bool) -> tuple[Incident, ...]:
        """Return the open incidents that are live, or those of a replay."""
        joiner = self.joiners.get((keyed_by, live))
        return () if joiner is None else joiner.incidents


class JoiningTask(Observed, StageTask):
    """The task that joins the anomalies of one partition.

    Parameters:
        stage: its stage.
        partition: the partition of the anomalies.
        options: see `TaskOptions`. A key is saved after at most `FEWEST_RECORDS` of its records: anomalies are rare,
            and a replay should not need the whole topic. Anomalies themselves say whether they are live.

    """

    states: States[KeyedIncidents]

    def __init__(self, stage: Joining, partition: Partition, **options: Unpack[TaskOptions]) -> None:
        every = min(options.get("snapshot_records", SNAPSHOT_RECORDS), FEWEST_RECORDS)
        states = States(stage, partition, KeyedIncidents, every, _MAX_KEYS)
        super().__init__(stage, partition, states, options.get("observers", ()), options.get("telemetry"))

    def _pass(self, record: Incoming) -> None:
        """Advance past the next record. Incidents do not count: their places between other records are not fixed."""
        self.position = record.offset + 1
        self.states.counted += _is_joined(record)

    def _process(self, record: Incoming) -> bool:
        is_timed = _is_joined(record) and self._take(record)
        self.states.save_silent(self.position)
        for key, keyed in self.states.take_gone():
            with self._setting_aside(key):
                for (keyed_by, _), joiner in keyed.joiners.items():
                    self._publish(keyed_by, key, joiner.give_up(), ())
        return is_timed

    def _take(self, record: Incoming) -> bool:
        """Process an anomaly, a record of its progress, or feedback. Return whether it is live, and no feedback."""
        try:
            found = read_output(record.value, self._place(record))
        except RecordError as error:
            self._refuse(record, str(error))
            return False
        if isinstance(found, FeedbackOutput):
            self._dismiss(record, found.feedback, live=found.live)
            return False
        if not isinstance(found, Anomaly | Progress):
            return False
        if found.key != record.key:
            self._refuse(record, f"{self._place(record)}: expected the record's key {record.key!r}, got {found.key!r}")
            return False
        if found.scope:  # otherwise an older version wrote it, and no record ends it
            keyed = self.states.open(found.key, self.position)
            records = keyed.joiners[found.keyed_by, found.live].take(found)
            keyed.ts = found.ts
            self.states.note(found.key, record.offset)
            self._publish(found.keyed_by, found.key, records, keyed.open(found.keyed_by))
        return found.live

    def _dismiss(self, record: Incoming, feedback: Feedback, *, live: bool) -> None:
        """Count an incident that feedback calls false, once."""
        if not (live and feedback.says == "usual" and feedback.incident and feedback.key == record.key):
            return
        known = self.states.get(feedback.key)
        if known is not None and feedback.incident not in known.dismissed:
            known.dismissed.append(feedback.incident)
            self.states.note(feedback.key, record.offset)
            self._observe(feedback.key, lambda observer: observer.dismissed(feedback.keyed_by, feedback.key))

    def _publish(
        self, keyed_by: KeyedBy, key: str, incidents: Sequence[Incident], still_open: Sequence[Incident]
    ) -> None:
        if not incidents:
            return
        self.outputs += incidents
        opened = sum(each.change == "opened" and each.live for each in incidents)
        self._observe(key, partial(_show, keyed_by=keyed_by, key=key, incidents=still_open, opened=opened))

    def found(self) -> None:
        """Report the open incidents to the observers."""
        for key in self.states.keys():  # noqa: SIM118 - no dictionary
            keyed = self.states.get(key)
            assert keyed is not None
            with self._setting_aside(key):
                for keyed_by in dict.fromkeys(each for each, _ in keyed.joiners):
                    self._observe(key, partial(_show, keyed_by=keyed_by, key=key, incidents=keyed.open(keyed_by)))

    def lost(self) -> None:
        """Report to the observers that this state is dropped."""
        keys = self.states.keys()
        self._observe(self.partition.topic, lambda observer: observer.parted(keys))


def _is_joined(record: Incoming) -> bool:
    kind = next((value for name, value in record.headers if name == "ce_type"), None)
    return kind is None or kind in _JOINED


def _show(observer: Observer, *, keyed_by: KeyedBy, key: str, incidents: Sequence[Incident], opened: int = 0) -> None:
    observer.joined(keyed_by, key, incidents, opened)
