"""The topics and partitions of the embedded bus: their ids in the file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from laggard.pipeline.core.bus import BusError

if TYPE_CHECKING:
    from laggard.pipeline.core.bus import Partition
    from laggard.pipeline.core.bus.database import Database


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic: the ids of its partitions, and whether it keeps only the newest record of each key."""

    ids: tuple[int, ...]
    compacted: bool


class TopicIds:
    """The existing topics of a file."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[str, Topic] = {}

    def topic(self, name: str) -> Topic:
        """Return a topic. Topics neither change nor disappear, so that each is looked up once."""
        known = self._known.get(name)
        if known is not None:
            return known
        with self._database.reading("look a topic up") as connection:
            rows = connection.execute(
                "SELECT p.id, t.compacted FROM topics AS t JOIN partitions AS p ON p.topic = t.id WHERE t.name = ? "
                "ORDER BY p.number",
                (name,),
            ).fetchall()
        if not rows:
            raise BusError(f"{self._database.path}: expected an existing topic, got {name!r}; create it first")
        topic = self._known[name] = Topic(tuple(row[0] for row in rows), bool(rows[0][1]))
        return topic

    def partition_id(self, partition: Partition) -> int:
        """Return the partition's id in the file. Raises BusError for one that does not exist."""
        ids = self.topic(partition.topic).ids
        if not 0 <= partition.number < len(ids):
            raise BusError(
                f"{self._database.path}: expected a partition of {partition.topic} from 0 to {len(ids) - 1}, "
                f"got {partition.number}"
            )
        return ids[partition.number]
