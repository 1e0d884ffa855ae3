"""Outliers among the members of a pool, as public records; see `outputs`."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, Literal, NamedTuple, Self, get_args

from laggard.operators.ranking import FeatureScore, Kind
from laggard.pipeline.core.records.declared import (
    Declared,
    Form,
    Part,
    count,
    flag,
    key,
    many,
    number,
    shape_of,
    text,
    texts,
    time,
)
from laggard.pipeline.core.records.features import FEATURE
from laggard.pipeline.core.records.fields import Fields
from laggard.pipeline.core.records.ids import derived_id
from laggard.pipeline.core.records.limits import MAX_NAME, MAX_ROWS
from laggard.pipeline.core.records.members import ID, LIVE, SENTENCE_FIELD, YOUNG
from laggard.pipeline.core.records.strict_json import json_number

MAX_LEAVES: Final = 64
"""The most leaves of a dendrogram. A larger one is cut: its lowest clusters stand for their members."""

MAX_LEVELS: Final = 16
MAX_RANKED: Final = 100
"""The most deviations in a record: the worst ones."""


def pool_id(operator: str, pool: str, tick: str) -> str:
    """Return the id of an operator's record of a pool; `tick` is unique among those of the pool.

    The same arguments give the same id, so that readers recognize duplicates.
    """
    return derived_id("pool", operator, pool, tick)


def _kind(description: str, *others: str, **schema: Any) -> Form:
    """Return the form of a kind. The schema allows for kinds of later versions."""
    known = (*others, *get_args(Kind))
    schema = {"type": "string", "description": description, **schema}
    return Form(schema, lambda found, name: found.choice(name, known))


@dataclass(frozen=True, slots=True)
class Ranked(Part):
    """Outliers of a pool: one member, or a group."""

    rows: Annotated[
        tuple[str, ...],
        texts("The id of the member; of a group, such as those of a host, its path.", MAX_ROWS, MAX_NAME),
    ]
    name: Annotated[str, text("The name of the member or group.")]
    kind: Annotated[
        Kind,
        _kind(
            "How they deviate. They did much more for a while, and are back (`spike`), or go on doing so (`busy`). "
            "They hold more and more (`leak`), do nothing while others work (`stuck`), or get less done (`slower`). "
            "They left the pool (`left`), began later (`younger`), or their metrics vary otherwise (`different`). A "
            "later version may have more.",
            minLength=1,
        ),
    ]
    score: Annotated[float, number("The score, 1 or more; null if it is too large for a number.")]
    height: Annotated[float, number("The height at which they merge with others in the dendrogram; null without one.")]
    p_value: Annotated[
        float,
        number(
            "The approximately unbiased p-value of that merge in percent; null without one.",
            minimum=0,
            maximum=100,
        ),
    ]
    begin_ts: Annotated[float, number("Its start, seconds since the Unix epoch; null if unknown.", minimum=0)]
    end_ts: Annotated[float, number("Its end; null while it lasts.", minimum=0)]
    window: Annotated[int, count("The ticks of the window that shows it best; 0 for the whole life.")]
    level: Annotated[str, text("The path of the group inside which they deviate; empty at the top.")]
    features: Annotated[
        tuple[FeatureScore, ...],
        many(
            FEATURE, "The most distinctive features, worst first: their value, and the mean and deviation of the pool."
        ),
    ]
    sentence: Annotated[str, SENTENCE_FIELD]


@dataclass(frozen=True, slots=True)
class Leaf(Part):
    """A member, a group, or a cluster of them whose parts are not listed."""

    label: Annotated[str, text("Of the member or group; of a cluster, of its first one.", MAX_NAME)]
    members: Annotated[int, count("The number of members or groups in it.", 1, MAX_ROWS)] = 1
    deviating: Annotated[int, count("The number of these that deviate.", 0, MAX_ROWS)] = 0
    kind: Annotated[
        Kind | Literal[""], _kind("How the first of those does, as in `ranked`; empty where none does.", "")
    ] = ""
    height: Annotated[float, number("The height at which the last of them merge; 0 for one.")] = 0.0


class Merge(NamedTuple):
    """Two clusters that become one. With n leaves, numbers below n are leaves, and n + i is the result of merge i.

    Attributes:
        first: the number of one cluster.
        second: the number of the other one.
        height: the distance at which they merge.
        members: the number of members or groups in both.

    """

    first: int
    second: int
    height: float
    members: int


def _read_merges(fields: Fields, name: str) -> tuple[Merge, ...]:
    merges = fields.tuples(name, len(Merge._fields))
    leaves = len(fields.objects("leaves"))
    if leaves > MAX_LEAVES:
        raise fields.error("leaves", f"at most {MAX_LEAVES}")
    if len(merges) != max(leaves - 1, 0):
        raise fields.error(name, f"one less than leaves, {max(leaves - 1, 0)}")
    free = set(range(leaves))
    for cluster, (first, second, _, size) in enumerate(merges, leaves):
        if first == second or not free.issuperset((first, second)):
            raise fields.error(name, "numbers of leaves, and of clusters that were made before, each merged once")
        if not (size.is_integer() and 0 <= size <= MAX_ROWS):
            raise fields.error(name, f"numbers of members up to {MAX_ROWS:,}")
        free = free - {first, second} | {cluster}
    return tuple(Merge(int(first), int(second), height, int(size)) for first, second, height, size in merges)


def _write_merges(merges: tuple[Merge, ...]) -> list[list[Any]]:
    return [[first, second, json_number(height), size] for first, second, height, size in merges]


MERGES: Final = Form(
    {
        "type": "array",
        "description": "As scipy's `linkage` has them: one less than leaves, by their height; the two clusters that "
        "are merged, the height, and how many members or groups are in both. Clusters are numbered from 0: the leaves "
        "first, then what each merge makes.",
        "items": {
            "type": "array", "items": {"type": ["number", "null"]},
            "minItems": len(Merge._fields), "maxItems": len(Merge._fields),
        },
    },
    _read_merges,
    _write_merges,
)  # fmt: skip
P_VALUES: Final = Form(
    {
        "type": "array",
        "description": "The approximately unbiased p-value of each merge in percent; null if there is none.",
        "items": {"type": ["number", "null"], "minimum": 0, "maximum": 100},
    },
    Fields.numbers,
    lambda values: list(map(json_number, values)),
)


@dataclass(frozen=True, slots=True)
class LevelOutput(Part):
    """One step of the top-down analysis: the members of one group, or groups of one, as a dendrogram."""

    path: Annotated[str, text("The path of the group; empty at the top.")]
    leaves: Annotated[
        tuple[Leaf, ...],
        many(shape_of(Leaf), f"Members, or groups, or clusters of them: at most {MAX_LEAVES}."),
    ]
    merges: Annotated[tuple[Merge, ...], MERGES]
    p_values: Annotated[tuple[float, ...], P_VALUES]

    @classmethod
    def made(cls, found: Fields, **read: Any) -> Self:
        """Return the record with these attributes."""
        if len(read["p_values"]) != len(read["merges"]):
            raise found.error("p_values", f"as many as merges, {len(read['merges'])}")
        return cls(**read)


@dataclass(frozen=True, slots=True)
class PoolOutput(Declared):
    """The outliers among the members of a pool.

    It is published when they change; `laggard replay` prints one more for the whole recording at the end.
    """

    kind: ClassVar[str] = "pool"

    ts: Annotated[float, time("The time of the tick by the clock of its host, seconds since the Unix epoch.")]
    id: Annotated[str, ID]
    operator: Annotated[str, text("The operator that detected it: `covariance`.")]
    pool: Annotated[str, key("The pool. The record's key.")]
    members: Annotated[int, count("The number of members at this tick.", 0, MAX_ROWS)]
    age_s: Annotated[float, number("The time for which the operator has learned this pool, in seconds.", minimum=0)]
    young: Annotated[bool, YOUNG]
    whole: Annotated[bool, flag("Whether it covers the whole recording, at its end, instead of the moment.")]
    ranking: Annotated[
        tuple[Ranked, ...],
        many(shape_of(Ranked), "The outliers, the worst first."),
    ]
    levels: Annotated[
        tuple[LevelOutput, ...],
        many(
            shape_of(LevelOutput),
            "Dendrograms from the top down: the whole pool first, then groups that deviate or have members that do. "
            "Empty if the record is about the moment.",
        ),
    ]
    live: Annotated[bool, LIVE]
