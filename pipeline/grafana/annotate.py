"""Incidents and marks as annotations in Grafana, by a separate consumer of the topic of anomalies.

An open incident begins as a line with the tag `open`. Its text grows with the incident, and at its end it becomes a
region.

Only the offsets are stored. Each annotation has its incident's id as a tag, and is searched before it is written or
changed, so that repeated records change nothing. If that of an open incident is missing, a person has deleted it.
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from typing import TYPE_CHECKING

from laggard.pipeline.core.backoff import Backoff
from laggard.pipeline.core.bus import BusUnavailable, Commit, DamagedRecord, Fenced, Polled
from laggard.pipeline.core.records.errors import RecordError
from laggard.pipeline.core.topics import ANNOTATIONS, ANOMALIES
from laggard.pipeline.grafana.errors import GrafanaError, GrafanaUnavailable
from laggard.pipeline.grafana.notes import INCIDENT, OPEN, TAG, note_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from laggard.pipeline.core.bus import Bus, Incoming, Partition, Subscription
    from laggard.pipeline.core.topics import Topics
    from laggard.pipeline.grafana.client import Grafana
    from laggard.pipeline.grafana.notes import Note

_logger = logging.getLogger(__name__)


class Annotator:
    """A consumer that follows the topic and updates the annotations. Not thread-safe.

    Parameters:
        bus: the bus of the topic.
        topics: the names of the topics.
        grafana: the Grafana of the annotations.
        since_s: the greatest age of the first records, if no offset is committed yet.
        clock: returns seconds since the Unix epoch.
        sleep: waits for seconds.
        report: called for each annotation with the action (`written`, `changed`, `ended`, `there`, `deleted`,
            `endless`), its key and its start.

    """

    def __init__(
        self,
        bus: Bus,
        topics: Topics,
        grafana: Grafana,
        *,
        since_s: float,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], object] = time.sleep,
        report: Callable[[str, str, float], object] = lambda *_: None,
    ) -> None:
        self._bus = bus
        self._topic = topics.name(ANOMALIES)
        self._group = topics.group(ANNOTATIONS)
        self._grafana = grafana
        self._since_s = since_s
        self._clock = clock
        self._sleep = sleep
        self._report = report
        self._subscription: Subscription | None = None
        self._waiting: deque[Incoming] = deque()
        self._offsets: dict[Partition, int] = {}
        self._backoff = Backoff()
        self._begins: dict[Partition, float] = {}  # if no offset was committed: earlier openings were not read

    def begin(self) -> None:
        """Join the group. Raises the errors of joining, and GrafanaError.

        Older versions annotated anomalies, and ended them by Prometheus. Open ones lose the tag `open`, and stay lines.
        """
        for annotation in self._grafana.annotations.find([TAG, INCIDENT, OPEN]):
            tags = [str(tag) for tag in annotation["tags"]]
            if any(tag.startswith("anomaly:") for tag in tags):
                self._grafana.annotations.change(int(annotation["id"]), {"tags": [tag for tag in tags if tag != OPEN]})
                self._report("endless", tags[2], annotation["time"] / 1000.0)
        self._subscription = self._bus.subscribe(self._group, [self._topic])

    def step(self, timeout_s: float) -> None:
        """Read available records, waiting at most `timeout_s` for them; annotate them, and commit.

        While Grafana cannot be reached, the membership continues without reading, and nothing is lost. Raises BusError,
        and GrafanaError if a retry cannot help.
        """
        assert self._subscription is not None, "begin comes first"
        now = self._clock()
        if not self._waiting:
            self._poll(self._subscription, timeout_s)
        elif self._backoff.at > now:
            self._keep(self._subscription, min(timeout_s, self._backoff.at - now))
        try:
            self._write()
        except GrafanaUnavailable as error:
            if not self._backoff.failures:
                _logger.warning("%s; trying again", error)
            self._backoff.failed(self._clock())
        else:
            self._backoff.went_well()
        self._commit(self._subscription)

    def close(self) -> None:
        """Leave the group. Uncommitted records are read again, and their annotations are found."""
        if self._subscription is not None:
            self._subscription.close()

    def _poll(self, subscription: Subscription, timeout_s: float) -> None:
        try:
            polled = subscription.poll(timeout_s)
        except DamagedRecord as damaged:
            _logger.warning("skipped: %s", damaged)
            self._offsets[damaged.partition] = damaged.offset + 1
            return
        except BusUnavailable as error:
            _logger.warning("%s; trying again", error)
            self._sleep(timeout_s)
            return
        self._take(subscription, polled)

    def _keep(self, subscription: Subscription, timeout_s: float) -> None:
        """Stay a member while nothing can be written: no records come, but partitions may be revoked."""
        mine = {record.partition for record in self._waiting}
        for partition in mine:
            subscription.pause(partition)
        try:
            polled = subscription.poll(timeout_s)
        except BusUnavailable:
            self._sleep(timeout_s)
            polled = Polled()
        self._take(subscription, polled)
        for partition in mine - polled.revoked:
            subscription.resume(partition)

    def _take(self, subscription: Subscription, polled: Polled) -> None:
        for partition in polled.revoked:
            self._drop(partition)
        for partition in polled.assigned:
            if not subscription.committed(partition):
                self._begins[partition] = self._clock() - self._since_s
                subscription.seek(partition, self._bus.offset_at(partition, self._begins[partition]))
        self._waiting.extend(polled.records)

    def _drop(self, partition: Partition) -> None:
        self._waiting = deque(record for record in self._waiting if record.partition != partition)
        self._offsets.pop(partition, None)

    def _write(self) -> None:
        """Annotate the waiting records, one after the other."""
        while self._waiting:
            record = self._waiting[0]
            try:
                note = note_of(record)
            except RecordError as error:
                _logger.warning("skipped: %s", error)
                note = None
            if note is not None:
                self._report(self._annotate(note, record.partition), note.key, note.ts)
            self._waiting.popleft()
            self._offsets[record.partition] = record.offset + 1

    def _annotate(self, note: Note, partition: Partition) -> str:
        """Write the note to its annotation in Grafana, and return the action."""
        there = self._grafana.annotations.find([TAG, note.id_tag], limit=1)
        if not there:
            if note.change != "opened" and note.ts >= self._begins.get(partition, -math.inf):
                return "deleted"
            self._grafana.annotations.create(note.to_json())
            return "written"
        changes = note.changes(there[0])
        if not changes:
            return "there"
        try:
            self._grafana.annotations.change(int(there[0]["id"]), changes)
        except GrafanaError as error:
            if error.status != 404:
                raise
            return "deleted"
        return "ended" if note.change == "closed" else "changed"

    def _commit(self, subscription: Subscription) -> None:
        if not self._offsets:
            return
        try:
            subscription.commit(Commit(dict(self._offsets)))
        except Fenced as fenced:
            for partition in fenced.partitions or tuple(self._offsets):
                self._drop(partition)
        except BusUnavailable as error:
            _logger.warning("%s; trying again", error)
        else:
            self._offsets.clear()
