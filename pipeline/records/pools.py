"""Outliers among the members of a pool, as public records; see `outputs`."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, Literal, NamedTuple, Self, get_args

from laggard.operators.ranking import FeatureScore, Kind
from laggard.pipeline.records.declared import (
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
from laggard.pipeline.records.features import FEATURE
from laggard.pipeline.records.fields import Fields
from laggard.pipeline.records.ids import derived_id
from laggard.pipeline.records.limits import MAX_NAME, MAX_ROWS
from laggard.pipeline.records.members import ID, LIVE, TOLD, YOUNG
from laggard.pipeline.records.strict_json import json_number

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
    name: Annotated[str, text("Of the member, or of the group.")]
    kind: Annotated[
        Kind,
        _kind(
            "How they deviate: for a while they did much more, and are back (`spike`), or go on doing so (`busy`); "
            "they hold more and more (`leak`), do nothing while others work (`stuck`), get less done (`slower`), left "
            "the pool (`left`), began later (`younger`), or their metrics vary otherwise (`different`). A later "
            "version may have more.",
            minLength=1,
        ),
    ]
    score: Annotated[float, number("How unusual: 1 or more. Null where it is too great for a number.")]
    height: Annotated[float, number("At which they merge with others in the dendrogram; null without one.")]
    p_value: Annotated[
        float,
        number(
            "The approximately unbiased p-value of that merge in percent; null where none was computed.",
            minimum=0,
            maximum=100,
        ),
    ]
    begin_ts: Annotated[
        float, number("Since when, seconds since the Unix epoch; null where that is not known.", minimum=0)
    ]
    end_ts: Annotated[float, number("Until when; null while it lasts.", minimum=0)]
    window: Annotated[int, count("Ticks of the window that shows it best; 0 for the whole life.")]
    level: Annotated[str, text("Path of the group inside which they deviate; empty at the top.")]
    features: Annotated[
        tuple[FeatureScore, ...],
        many(FEATURE, "What sets them apart, worst first: their value, and the pool's usual mean and deviation."),
    ]
    sentence: Annotated[str, TOLD]


@dataclass(frozen=True, slots=True)
class Leaf(Part):
    """A member, a group, or a cluster of them whose parts are not listed."""

    label: Annotated[str, text("Of the member or group; of a cluster, of its first one.", MAX_NAME)]
    members: Annotated[int, count("How many members or groups it stands for.", 1, MAX_ROWS)] = 1
    deviating: Annotated[int, count("How many of these deviate.", 0, MAX_ROWS)] = 0
    kind: Annotated[
        Kind | Literal[""], _kind("How the first of those does, as in `ranked`; empty where none does.", "")
    ] = ""
    height: Annotated[float, number("At which the last of them merge; 0 where there is one.")] = 0.0


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


def _read_merges(found: Fields, name: str) -> tuple[Merge, ...]:
    merges = found.tuples(name, len(Merge._fields))
    leaves = len(found.objects("leaves"))
    if leaves > MAX_LEAVES:
        raise found.error("leaves", f"at most {MAX_LEAVES}")
    if len(merges) != max(leaves - 1, 0):
        raise found.error(name, f"one less than leaves, {max(leaves - 1, 0)}")
    free = set(range(leaves))
    for made, (first, second, _, size) in enumerate(merges, leaves):
        if first == second or not free.issuperset((first, second)):
            raise found.error(name, "numbers of leaves, and of clusters that were made before, each merged once")
        if not (size.is_integer() and 0 <= size <= MAX_ROWS):
            raise found.error(name, f"numbers of members up to {MAX_ROWS:,}")
        free = free - {first, second} | {made}
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

    path: Annotated[str, text("Of the group; empty at the top.")]
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

    ts: Annotated[float, time("The time of the tick, by the clock of its host: seconds since the epoch.")]
    id: Annotated[str, ID]
    operator: Annotated[str, text("The operator that found it: `covariance`.")]
    pool: Annotated[str, key("The pool that it is about. The record's key.")]
    members: Annotated[int, count("How many are there at this tick.", 0, MAX_ROWS)]
    age_s: Annotated[float, number("How long the operator has been learning this pool, in seconds.", minimum=0)]
    young: Annotated[bool, YOUNG]
    whole: Annotated[
        bool, flag("Whether it is about all of the recorded data, at their end, and not about the moment.")
    ]
    ranking: Annotated[
        tuple[Ranked, ...],
        many(shape_of(Ranked), "Those that deviate, the worst first; empty where none does."),
    ]
    levels: Annotated[
        tuple[LevelOutput, ...],
        many(
            shape_of(LevelOutput),
            "Dendrograms, top-down: of the whole pool first, then of groups that deviate or have members that do. "
            "Empty where it is about the moment.",
        ),
    ]
    live: Annotated[bool, LIVE]
