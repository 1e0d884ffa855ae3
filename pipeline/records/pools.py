"""Which members of a pool behave unlike the others, as it leaves for other people's tools; see `outputs`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NamedTuple, get_args

from laggard.operators.ranking import Kind
from laggard.pipeline.records.features import features_json, read_features
from laggard.pipeline.records.ids import derived_id
from laggard.pipeline.records.limits import MAX_NAME, MAX_ROWS, MAX_SEQUENCE
from laggard.pipeline.records.strict_json import json_number

if TYPE_CHECKING:
    from laggard.operators.ranking import FeatureScore
    from laggard.pipeline.records.fields import Fields

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
MAX_LEAVES: Final = 64
"""A dendrogram with more leaves is told from its top down: below, clusters stand for their members."""

MAX_LEVELS: Final = 16
MAX_RANKED: Final = 100
"""So many deviations are told at most, the worst."""


def pool_id(operator: str, pool: str, tick: str) -> str:
    """The id of what an operator says of a pool; `tick` tells it from what else it says of it.

    The same arguments give the same id, so that a reader can always tell what it has seen before.
    """
    return derived_id("pool", operator, pool, tick)


@dataclass(frozen=True, slots=True)
class Ranked:
    """Members that behave unlike the others.

    Attributes:
        rows: the id of the member; of a group its path. As published they are clusters, with all of theirs.
        name: of the member or of the group.
        kind: how they deviate.
        score: above 1; where all of the data are ranked as published, which knows no budget, at least 1.
        height: at which they merge with others in the dendrogram; NaN without one.
        p_value: the approximately unbiased p-value of that merge in percent, 0 to 100; NaN where none was computed.
        begin_ts: since when, seconds since the Unix epoch; NaN where that is not known.
        end_ts: until when; NaN while it lasts.
        window: ticks of the window that shows it best; 0 for the whole life.
        level: path of the group inside which they deviate; empty at the top.
        features: what sets them apart, worst first, with the pool's usual band.
        sentence: what it is, in plain words.

    """

    rows: tuple[str, ...]
    name: str
    kind: Kind
    score: float
    height: float
    p_value: float
    begin_ts: float
    end_ts: float
    window: int
    level: str
    features: tuple[FeatureScore, ...]
    sentence: str

    def to_json(self) -> dict[str, Any]:
        """The object that is written."""
        return {
            "rows": list(self.rows),
            "name": self.name,
            "kind": self.kind,
            "score": json_number(self.score),
            "height": json_number(self.height),
            "p_value": json_number(self.p_value),
            "begin_ts": json_number(self.begin_ts),
            "end_ts": json_number(self.end_ts),
            "window": self.window,
            "level": self.level,
            "features": features_json(self.features),
            "sentence": self.sentence,
        }


@dataclass(frozen=True, slots=True)
class Leaf:
    """A member, a group, or a cluster of them that is not told one by one.

    Attributes:
        label: of the member or group; of a cluster, of its first one.
        members: how many members or groups it stands for, at least 1.
        deviating: how many of these deviate.
        kind: how the first of those does; empty where none does.
        height: at which the last of them merge; 0 where there is one.

    """

    label: str
    members: int = 1
    deviating: int = 0
    kind: Kind | Literal[""] = ""
    height: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """The object that is written."""
        return {
            "label": self.label,
            "members": self.members,
            "deviating": self.deviating,
            "kind": self.kind,
            "height": json_number(self.height),
        }


class Merge(NamedTuple):
    """Two clusters that become one: those below the number n of leaves are leaves, n + i is what merge i made.

    Attributes:
        first: one of them.
        second: the other one.
        height: the distance at which they merge.
        members: how many members or groups there are in both.

    """

    first: int
    second: int
    height: float
    members: int


@dataclass(frozen=True, slots=True)
class LevelOutput:
    """One step of the top-down analysis: the members of one group, or groups of one, as a dendrogram.

    Attributes:
        path: of the group; empty at the top.
        leaves: at most `MAX_LEAVES`.
        merges: one less, each after those that made its clusters; the last one is of all leaves.
        p_values: of each merge, see `Ranked`.

    """

    path: str
    leaves: tuple[Leaf, ...]
    merges: tuple[Merge, ...]
    p_values: tuple[float, ...]

    def to_json(self) -> dict[str, Any]:
        """The object that is written."""
        return {
            "path": self.path,
            "leaves": [each.to_json() for each in self.leaves],
            "merges": [[first, second, json_number(height), size] for first, second, height, size in self.merges],
            "p_values": [json_number(each) for each in self.p_values],
        }


@dataclass(frozen=True, slots=True)
class PoolOutput:
    """Which members of a pool behave unlike the others (S3), told when that changes.

    Attributes:
        id: see `pool_id`.
        ts: of the tick, seconds since the Unix epoch.
        operator: which one found it.
        pool: whose members.
        members: how many are there at this tick.
        age_s: how long the pool has been learned from, in seconds.
        young: whether that is too short to be relied on.
        whole: whether it is about all of the recorded data, at their end, and not about the moment alone.
        ranking: worst first; nothing is ranked where no member deviates.
        levels: top-down: the top first, then each group that deviates or has members that do. Only of a whole.
        live: whether it is about now; false for a replay of recorded data.

    """

    kind: ClassVar[str] = "pool"

    id: str
    ts: float
    operator: str
    pool: str
    members: int
    age_s: float
    young: bool
    whole: bool
    ranking: tuple[Ranked, ...]
    levels: tuple[LevelOutput, ...]
    live: bool

    def to_json(self) -> dict[str, Any]:
        """The object that is written."""
        return {
            "kind": self.kind,
            "ts": json_number(self.ts),
            "id": self.id,
            "operator": self.operator,
            "pool": self.pool,
            "members": self.members,
            "age_s": json_number(self.age_s),
            "young": bool(self.young),
            "whole": bool(self.whole),
            "ranking": [each.to_json() for each in self.ranking],
            "levels": [each.to_json() for each in self.levels],
            "live": bool(self.live),
        }


def read_pool(fields: Fields) -> PoolOutput:
    """What is said of a pool in these fields. Raises `RecordError`."""
    return PoolOutput(
        id=fields.text("id"),
        ts=fields.ts("ts"),
        operator=fields.text("operator"),
        pool=fields.key("pool"),
        members=fields.integer("members", 0, MAX_ROWS),
        age_s=fields.number("age_s"),
        young=fields.boolean("young"),
        whole=fields.boolean("whole"),
        ranking=tuple(map(_ranked, fields.objects("ranking"))),
        levels=tuple(map(_level, fields.objects("levels"))),
        live=fields.boolean("live"),
    )


def _ranked(fields: Fields) -> Ranked:
    return Ranked(
        rows=fields.texts("rows", MAX_ROWS, MAX_NAME),
        name=fields.text("name"),
        kind=fields.choice("kind", KINDS),
        score=fields.number("score"),
        height=fields.number("height"),
        p_value=fields.number("p_value"),
        begin_ts=fields.number("begin_ts"),
        end_ts=fields.number("end_ts"),
        window=fields.integer("window", 0, MAX_SEQUENCE),
        level=fields.text("level"),
        features=read_features(fields),
        sentence=fields.text("sentence"),
    )


def _leaf(fields: Fields) -> Leaf:
    return Leaf(
        label=fields.text("label", MAX_NAME),
        members=fields.integer("members", 1, MAX_ROWS),
        deviating=fields.integer("deviating", 0, MAX_ROWS),
        kind=fields.choice("kind", ("", *KINDS)),
        height=fields.number("height"),
    )


def _level(fields: Fields) -> LevelOutput:
    leaves = tuple(map(_leaf, fields.objects("leaves")))
    if len(leaves) > MAX_LEAVES:
        raise fields.error("leaves", f"at most {MAX_LEAVES}")
    most = max(len(leaves) - 1, 0)
    merges = fields.tuples("merges", 4)
    if len(merges) != most:
        raise fields.error("merges", f"one less than leaves, {most}")
    free = set(range(len(leaves)))
    for number, (first, second, _, size) in enumerate(merges, len(leaves)):
        if first == second or not free.issuperset((first, second)):
            raise fields.error("merges", "numbers of leaves, and of clusters that were made before, each merged once")
        if not (size.is_integer() and 0 <= size <= MAX_ROWS):
            raise fields.error("merges", f"numbers of members up to {MAX_ROWS:,}")
        free = free - {first, second} | {number}
    p_values = fields.numbers("p_values")
    if len(p_values) != most:
        raise fields.error("p_values", f"as many as merges, {most}")
    return LevelOutput(
        path=fields.text("path"),
        leaves=leaves,
        merges=tuple(Merge(int(first), int(second), height, int(size)) for first, second, height, size in merges),
        p_values=p_values,
    )
