"""Pools: their list, deviating members and dendrograms (S3)."""

from __future__ import annotations

import math
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Final, Literal
from weakref import WeakKeyDictionary

import msgspec

from laggard.pipeline.core.records import Frame
from laggard.pipeline.core.topics import POOLS
from laggard.pipeline.explaining.explain import printable
from laggard.pipeline.history.rebuilding import known_keys
from laggard.pipeline.history.report import moment
from laggard.pipeline.history.series import Reader
from laggard.pipeline.history.why import OutsideError
from laggard.pipeline.investigator.caching import Cache
from laggard.pipeline.investigator.endpoint import (
    Answer,
    Counter,
    Endpoint,
    Number,
    Question,
    Seconds,
    Sentence,
    Time,
    Young,
)
from laggard.pipeline.methods.pools.dendrogram import highest, places, ticks
from laggard.pipeline.methods.pools.drawing import HARMLESS, INSIDE, leaf_labels, leaf_note, path_of
from laggard.pipeline.methods.pools.method import pool_stage
from laggard.pipeline.methods.pools.queries import pool_at, standings
from laggard.pipeline.methods.pools.report import SILENT_S, belief, level_heading, where_from
from laggard.pipeline.methods.pools.series import member_paths
from laggard.pipeline.methods.pools.settings import PoolsSettings
from laggard.pipeline.methods.pools.text import NOBODY
from laggard.pipeline.web.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.operators.ranking import FeatureScore
    from laggard.pipeline.core.records.pools import LevelOutput, PoolOutput, Ranked
    from laggard.pipeline.investigator.reading import Reading
    from laggard.pipeline.methods.pools.queries import Standing

LISTED: Final = 10
"""The most pools that an error names."""

AXIS_TICKS: Final = 6

_RECENT: Final = 64
"""The number of newest records of a pool whose features are offered: enough for all hosts that report it."""


PoolName = Annotated[str, msgspec.Meta(description="the name of the pool")]
PoolPrinted = Annotated[str, msgspec.Meta(description="the name of the pool, with unprintable characters escaped")]
LevelPath = Annotated[
    str, msgspec.Meta(description="the path of the group whose members are compared; empty at the top")
]
Place = Annotated[
    float, msgspec.Meta(description="the place along the axis: the first leaf is at 0, the next one at 1")
]


class PoolFeature(Answer, frozen=True):
    """A feature that sets a member apart."""

    feature: Counter
    value: Annotated[Number, msgspec.Meta(description="the value of the member or group, in the unit of the feature")]
    mean: Annotated[
        float | None,
        msgspec.Meta(description="the mean in the pool, in the unit of the feature; null if it is unknown"),
    ]
    standard_deviation: Annotated[
        Number, msgspec.Meta(description="the standard deviation in the pool, in the unit of the feature")
    ]
    score: Annotated[Number, msgspec.Meta(description="the score, comparable between the features of one member")]


class Deviating(Answer, frozen=True):
    """Members that deviate from the others."""

    rows: Annotated[list[str], msgspec.Meta(description="the id of the member; of a group its path")]
    name: Annotated[str, msgspec.Meta(description="the name of the member or group")]
    kind: Annotated[
        Literal["spike", "busy", "leak", "stuck", "slower", "left", "younger", "different"],
        msgspec.Meta(
            description="more work for a while (`spike`) or still (`busy`), growth (`leak`), no work (`stuck`), delay "
            "(`slower`), departure (`left`), later start (`younger`), other differences (`different`)"
        ),
    ]
    harmless: Annotated[bool, msgspec.Meta(description="whether it is harmless: only a later start (`younger`)")]
    score: Annotated[Number, msgspec.Meta(description="the score, 1 or more; null if it is too large for a number")]
    height: Annotated[
        float | None,
        msgspec.Meta(description="the height at which they merge with others in the dendrogram; null without one"),
    ]
    p_value: Annotated[
        float | None,
        msgspec.Meta(description="the approximately unbiased p-value of that merge, in percent; null without one"),
    ]
    begin_ts: Annotated[
        Number, msgspec.Meta(description="its start, seconds since the Unix epoch; null if it is unknown")
    ]
    end_ts: Annotated[
        float | None, msgspec.Meta(description="its end, seconds since the Unix epoch; null while it lasts")
    ]
    level: Annotated[str, msgspec.Meta(description="the path of the group inside which they deviate; empty at the top")]
    features: Annotated[list[PoolFeature], msgspec.Meta(description="the most distinctive features, worst first")]
    sentence: Sentence


class PoolStanding(Answer, frozen=True):
    """The state of a pool."""

    pool: PoolName
    name: PoolPrinted
    ts: Annotated[
        float | None,
        msgspec.Meta(
            description="the time of its newest frame, seconds since the Unix epoch; null if none is among the newest "
            "records"
        ),
    ]
    silent: Annotated[bool, msgspec.Meta(description="whether its newest frame is older than 90 s, or is unknown")]
    members: Annotated[
        int | None, msgspec.Meta(description="the number of members in its newest frames; null if that is unknown")
    ]
    deviating: Annotated[list[Deviating], msgspec.Meta(description="the deviations in its last output, worst first")]


class Pools(Answer, frozen=True):
    """Pools, those that deviate most first."""

    ts: Seconds
    pools: Annotated[
        list[PoolStanding], msgspec.Meta(description="the pools with the largest deviations first, then by name")
    ]
    hint: Annotated[str, msgspec.Meta(description="a hint on the sources of pools if there are none; otherwise empty")]


class PoolsQuestion(Question, frozen=True):
    """A moment; by default now."""

    at: Time | None = None
    most: Annotated[int, msgspec.Meta(ge=1, le=1000, description="the most pools to return")] = 200


class PoolLeaf(Answer, frozen=True):
    """A leaf of a dendrogram: a member, a group, or a folded cluster of them."""

    label: Annotated[str, msgspec.Meta(description="the label of the leaf, for queries")]
    name: Annotated[
        str, msgspec.Meta(description="the short label of the leaf, for people: `worker-3`, `worker-3 and 11 more`")
    ]
    note: Annotated[
        str,
        msgspec.Meta(
            description="the kind of its deviation, `3 of them` if some deviate, or `inside` if members of the group "
            "do; otherwise empty"
        ),
    ]
    harmless: Annotated[
        bool, msgspec.Meta(description="whether it deviates only because it began later than the others")
    ]
    members: Annotated[int, msgspec.Meta(description="the number of members or groups in it")]
    deviating: Annotated[int, msgspec.Meta(description="the number of these that deviate")]
    height: Annotated[
        Number, msgspec.Meta(description="the height at which the last of its members merge; 0 for one member")
    ]
    place: Place
    path: Annotated[
        str, msgspec.Meta(description="the path of the level of its members if it is a group; otherwise empty")
    ]
    compared: Annotated[bool, msgspec.Meta(description="whether that level has a dendrogram of its own")]


class PoolMerge(Answer, frozen=True):
    """A merge of two clusters. Numbers below the number n of leaves are leaves; n + i is the result of merge i."""

    first: Annotated[int, msgspec.Meta(description="the number of one cluster")]
    second: Annotated[int, msgspec.Meta(description="the number of the other cluster")]
    height: Annotated[Number, msgspec.Meta(description="the height at which the two clusters merge")]
    p_value: Annotated[
        float | None,
        msgspec.Meta(description="the approximately unbiased p-value of the merge, in percent; null without one"),
    ]
    members: Annotated[int, msgspec.Meta(description="the number of members or groups in both")]
    place: Place


class PoolLevel(Answer, frozen=True):
    """The dendrogram of one level, from the top down."""

    path: LevelPath
    heading: Annotated[
        str, msgspec.Meta(description="a heading for people: the group, and the number of those compared")
    ]
    leaves: Annotated[list[PoolLeaf], msgspec.Meta(description="the leaves, numbered from 0 in this order")]
    merges: Annotated[list[PoolMerge], msgspec.Meta(description="the merges, lowest height first")]
    highest: Annotated[Number, msgspec.Meta(description="the height of the highest merge")]
    ticks: Annotated[list[float], msgspec.Meta(description="round heights for the ticks of an axis")]


class Pool(Answer, frozen=True):
    """A pool: its deviating members, and its dendrograms."""

    pool: PoolName
    name: PoolPrinted
    ts: Seconds
    members: Annotated[int, msgspec.Meta(description="the number of members at this time")]
    young: Young
    belief: Annotated[str, msgspec.Meta(description="a sentence on the reliability of the comparison")]
    sentences: Annotated[
        list[str], msgspec.Meta(description="a sentence for each deviation, worst first; without any, one that says so")
    ]
    ranking: Annotated[list[Deviating], msgspec.Meta(description="the deviations, worst first")]
    levels: Annotated[list[PoolLevel], msgspec.Meta(description="the dendrograms from the top down")]
    features: Annotated[
        list[str], msgspec.Meta(description="the names of the features of members, most distinctive first")
    ]


class PoolQuestion(Question, frozen=True):
    """A pool and a moment; by default now."""

    pool: Annotated[str, msgspec.Meta(min_length=1, max_length=4096, description="the name of the pool")]
    at: Time | None = None


# The list.


def pools(reading: Reading, question: PoolsQuestion) -> Pools:
    """Return the states of all pools."""
    found = standings(reading.bus, reading.topics, question.at)
    now = reading.clock() if question.at is None else question.at
    hint = "" if found else _where_from(reading)
    return Pools(now, [_standing(each, now) for each in found[: question.most]], hint)


def _standing(standing: Standing, now: float) -> PoolStanding:
    silent = not now - standing.ts <= SILENT_S
    deviations = [_deviating(each) for each in standing.ranking]
    return PoolStanding(standing.pool, printable(standing.pool), standing.ts, silent, standing.members, deviations)


def _where_from(reading: Reading) -> str:
    return where_from("laggard up", discovers=reading.settings[PoolsSettings].discover)


# One pool.


_compared: WeakKeyDictionary[Reading, Cache[PoolOutput]] = WeakKeyDictionary()


def pool(reading: Reading, question: PoolQuestion) -> Pool:
    """Return a pool with its deviating members and dendrograms."""
    output = output_of(reading, question)
    levels = [each for each in output.levels if each.merges]
    features, groups = recent_members(reading, output)
    groups |= {each.path for each in levels if each.path}
    compared = {each.path for each in levels}
    return Pool(
        output.pool,
        printable(output.pool),
        output.ts,
        output.members,
        output.young,
        belief(output),
        [each.sentence for each in output.ranking] or [NOBODY],
        [_deviating(each) for each in output.ranking],
        [_level(each, groups, compared) for each in levels],
        features,
    )


def output_of(reading: Reading, question: PoolQuestion) -> PoolOutput:
    """Return the output on the queried pool. Raises `RequestError` (404) with the recorded pools or times."""
    cache = _compared.setdefault(reading, Cache())
    # P-values need a bootstrap. For a recent moment, records may still come.
    fixed = question.at is not None and question.at < reading.clock() - SILENT_S
    return cache.get((question.pool, question.at), lambda: _compare(reading, question), fixed=fixed)


def _compare(reading: Reading, question: PoolQuestion) -> PoolOutput:
    name = printable(question.pool[:100])
    try:
        found = pool_at(reading.bus, reading.topics, pool_stage(reading.settings), question.pool, question.at)
    except OutsideError as error:
        reach = f"a moment from {moment(error.first)} to {moment(error.last)}"
        raise RequestError(404, f"there are no records of pool {name} at {moment(error.ts)}", reach) from None
    if found is not None:
        return found
    known = known_keys(reading.bus, reading.topics.name(POOLS))
    if question.pool in known:
        raise RequestError(404, f"the members of {name} have not been compared yet", "a question in a minute")
    listed = ", ".join(map(printable, known[:LISTED])) + (", ..." if len(known) > LISTED else "")
    expected = f"one of {listed}" if known else _where_from(reading)
    raise RequestError(404, f"there are no records of pool {name}", expected)


def _deviating(ranked: Ranked) -> Deviating:
    return Deviating(
        list(ranked.rows),
        printable(ranked.name),
        ranked.kind,
        ranked.kind == HARMLESS,
        ranked.score,
        ranked.height,
        ranked.p_value,
        ranked.begin_ts,
        ranked.end_ts,
        ranked.level,
        [_feature(each) for each in ranked.features],
        printable(ranked.sentence),
    )


def _feature(feature: FeatureScore) -> PoolFeature:
    return PoolFeature(feature.feature, feature.value, feature.mean, feature.standard_deviation, feature.score)


def _level(level: LevelOutput, groups: set[str], compared: set[str]) -> PoolLevel:
    at, names, count = places(level), leaf_labels(level.leaves), len(level.leaves)
    leaves = [
        PoolLeaf(
            leaf.label,
            name,
            leaf_note(leaf) or (INSIDE if path_of(level, leaf) in compared else ""),
            leaf.kind == HARMLESS,
            leaf.members,
            leaf.deviating,
            leaf.height,
            place,
            path if (path := path_of(level, leaf)) in groups else "",
            path in compared,
        )
        for leaf, name, place in zip(level.leaves, names, at[:count], strict=True)
    ]
    merges = [merge_of(level, number, at) for number in range(len(level.merges))]
    heading = printable(level_heading(level))
    return PoolLevel(level.path, heading, leaves, merges, highest(level), ticks(highest(level), AXIS_TICKS))


def merge_of(level: LevelOutput, number: int, at: Sequence[float]) -> PoolMerge:
    """Return a merge of a dendrogram, at the places of its leaves and merges along the axis."""
    first, second, height, members = level.merges[number]
    return PoolMerge(first, second, height, level.p_values[number], members, at[len(level.leaves) + number])


def recent_members(reading: Reading, output: PoolOutput) -> tuple[list[str], set[str]]:
    """Return the features of members, distinctive ones first, and the paths of groups that have members."""
    partition = reading.bus.partition_of(reading.topics.name(POOLS), output.pool)
    reader = Reader(reading.bus, partition, output.pool)
    stop = reader.bus.offset_at(partition, math.nextafter(output.ts, math.inf))
    features = dict.fromkeys(feature.feature for each in output.ranking for feature in each.features)
    groups: set[str] = set()
    seen: set[int] = set()
    for _, record in islice(reader.backwards(stop), _RECENT):
        if isinstance(record, Frame) and id(record.layout) not in seen:
            seen.add(id(record.layout))
            features |= dict.fromkeys(record.layout.features)
            for path in member_paths(record.layout):
                groups |= {path[:at] for at, each in enumerate(path) if each == "/"}
    return list(features), groups


ENDPOINTS: Final = (
    Endpoint("/pools", "The pools, those in which members deviate most first.", Pools, pools, PoolsQuestion),
    Endpoint("/pools/pool", "One pool: who deviates, and the dendrograms that show it.", Pool, pool, PoolQuestion),
)
