"""Pools: which there are, who deviates, dendrograms, and members' series (S3)."""

from __future__ import annotations

import math
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Final, Literal
from weakref import WeakKeyDictionary

import msgspec

from laggard.pipeline.explaining.explain import printable
from laggard.pipeline.history.rebuilding import known_keys
from laggard.pipeline.history.report import moment
from laggard.pipeline.history.series import CONTEXT_S, Reader
from laggard.pipeline.history.why import OutsideError
from laggard.pipeline.investigator.caching import Kept
from laggard.pipeline.investigator.endpoint import Answer, Endpoint, Number, Question, Seconds, Text, Time
from laggard.pipeline.pools.dendrogram import highest, places, short_labels, ticks
from laggard.pipeline.pools.drawing import HARMLESS, INSIDE, leaf_labels, leaf_note, path_of
from laggard.pipeline.pools.method import comparing
from laggard.pipeline.pools.queries import pool_at, standings
from laggard.pipeline.pools.report import SILENT_S, belief, level_heading, where_from
from laggard.pipeline.pools.series import BIN_S, LONGEST_S, beside, cluster, member_paths, read_means
from laggard.pipeline.pools.settings import PoolsSettings
from laggard.pipeline.pools.text import NOBODY
from laggard.pipeline.records import Frame
from laggard.pipeline.topics import POOLS
from laggard.pipeline.web.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.operators.ranking import FeatureScore
    from laggard.pipeline.investigator.reading import Reading
    from laggard.pipeline.pools.queries import Standing
    from laggard.pipeline.records.pools import LevelOutput, PoolOutput, Ranked

LISTED: Final = 10
"""Pools that an error names."""

AXIS_TICKS: Final = 6
AFTER_S: Final = 600.0
"""So much of what came after the moment is in a series, where there is some."""

_RECENT: Final = 64
"""Records of a pool whose features are offered: of every host that tells of it."""


class PoolFeature(Answer, frozen=True):
    """What sets a member apart."""

    feature: str
    value: Number
    mean: Annotated[float | None, msgspec.Meta(description="the pool's usual")]
    standard_deviation: Number
    score: Number


class Deviating(Answer, frozen=True):
    """Members that behave unlike the others."""

    rows: Annotated[list[str], msgspec.Meta(description="ids; of a group its path")]
    name: str
    kind: Literal["spike", "busy", "leak", "stuck", "slower", "left", "younger", "different"]
    harmless: Annotated[bool, msgspec.Meta(description="whether it is no trouble")]
    score: Number
    height: Annotated[float | None, msgspec.Meta(description="at which they merge with others in the dendrogram")]
    p_value: Annotated[float | None, msgspec.Meta(description="of that merge, au, in percent")]
    begin_ts: Number
    end_ts: Annotated[float | None, msgspec.Meta(description="null while it lasts")]
    level: Annotated[str, msgspec.Meta(description="path of the group inside which they deviate; empty at the top")]
    features: list[PoolFeature]
    sentence: str


class PoolStanding(Answer, frozen=True):
    """How a pool stands."""

    pool: str
    name: Annotated[str, msgspec.Meta(description="the same, with what cannot be seen escaped")]
    ts: Annotated[float | None, msgspec.Meta(description="of its newest frame; null where that is long ago")]
    silent: bool
    members: int | None
    deviating: list[Deviating]


class Pools(Answer, frozen=True):
    """Pools, those that deviate most first."""

    ts: Seconds
    pools: list[PoolStanding]
    hint: Annotated[str, msgspec.Meta(description="where pools come from, if there are none; else empty")]


class PoolsQuestion(Question, frozen=True):
    """At which moment; without one, now."""

    at: Time | None = None
    most: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 200


class PoolLeaf(Answer, frozen=True):
    """A member, a group, or a cluster of them that is not told one by one."""

    label: Annotated[str, msgspec.Meta(description="names it in questions")]
    name: Annotated[str, msgspec.Meta(description="what it is called beside the others")]
    note: Annotated[str, msgspec.Meta(description="how it deviates, or that members inside it do; else empty")]
    harmless: bool
    members: int
    deviating: int
    height: Number
    place: Annotated[float, msgspec.Meta(description="from the first leaf, in leaves")]
    path: Annotated[str, msgspec.Meta(description="of the level of its members, if it is a group; else empty")]
    compared: Annotated[bool, msgspec.Meta(description="whether that level has a dendrogram, for some deviate in it")]


class PoolMerge(Answer, frozen=True):
    """Two clusters that become one: those below the number n of leaves are leaves, n + i is what merge i made."""

    first: int
    second: int
    height: Number
    p_value: Annotated[float | None, msgspec.Meta(description="approximately unbiased, in percent")]
    members: int
    place: float


class PoolLevel(Answer, frozen=True):
    """One step from the top down, as a dendrogram."""

    path: str
    heading: str
    leaves: list[PoolLeaf]
    merges: list[PoolMerge]
    highest: Number
    ticks: Annotated[list[float], msgspec.Meta(description="round heights, for an axis")]


class Pool(Answer, frozen=True):
    """All that is known of one pool."""

    pool: str
    name: str
    ts: Seconds
    members: int
    young: bool
    belief: Annotated[str, msgspec.Meta(description="how far it is to be relied on")]
    sentences: list[str]
    ranking: list[Deviating]
    levels: Annotated[list[PoolLevel], msgspec.Meta(description="the top first")]
    features: Annotated[list[str], msgspec.Meta(description="those that tell most first")]


class PoolQuestion(Question, frozen=True):
    """Which pool, and at which moment; without one, now."""

    pool: Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]
    at: Time | None = None


class PoolLine(Answer, frozen=True):
    """A member's means, or a group's."""

    label: str
    name: str
    values: list[Number]


class PoolSeries(Answer, frozen=True):
    """Members, and what the others of the pool do at the same time: means of `bin_s` seconds."""

    feature: str
    level: str
    bin_s: float
    ts: Annotated[list[float], msgspec.Meta(description="the middle of each bin")]
    lines: Annotated[list[PoolLine], msgspec.Meta(description="those farthest from the others, at most 5")]
    chosen: Annotated[int, msgspec.Meta(description="how many were asked for")]
    others: Annotated[int, msgspec.Meta(description="how many the rest is; where all were asked for, all")]
    everybody: Annotated[bool, msgspec.Meta(description="whether all were asked for")]
    median: Annotated[list[Number], msgspec.Meta(description="of the rest")]
    low: Annotated[list[Number], msgspec.Meta(description="its lower quartile")]
    high: Annotated[list[Number], msgspec.Meta(description="its upper quartile")]
    merge: Annotated[PoolMerge | None, msgspec.Meta(description="which made the cluster that was asked for")]


class SeriesQuestion(PoolQuestion, frozen=True, rename={"with_": "with", "from_": "from"}):
    """Of which member, group or cluster, and of which feature; without them, of those that tell most."""

    level: Annotated[str | None, msgspec.Meta(description="its path; without one, the top that is compared")] = None
    member: Annotated[str, msgspec.Meta(description="a leaf's label; empty for all", max_length=4096)] = ""
    with_: Annotated[
        str,
        msgspec.Meta(description="one more: then it is about the smallest cluster that has both", max_length=4096),
    ] = ""
    feature: Text = ""
    from_: Time | None = None
    to: Time | None = None


# Which there are.


def pools(reading: Reading, question: PoolsQuestion) -> Pools:
    """How all pools stand."""
    found = standings(reading.bus, reading.topics, question.at)
    now = reading.clock() if question.at is None else question.at
    hint = "" if found else _where_from(reading)
    return Pools(now, [_standing(each, now) for each in found[: question.most]], hint)


def _standing(standing: Standing, now: float) -> PoolStanding:
    silent = not now - standing.ts <= SILENT_S
    told = [_deviating(each) for each in standing.ranking]
    return PoolStanding(standing.pool, printable(standing.pool), standing.ts, silent, standing.members, told)


def _where_from(reading: Reading) -> str:
    return where_from("laggard up", discovers=reading.settings[PoolsSettings].discover)


# One of them.


_compared: WeakKeyDictionary[Reading, Kept[PoolOutput]] = WeakKeyDictionary()


def pool(reading: Reading, question: PoolQuestion) -> Pool:
    """All that is known of a pool."""
    output = _output(reading, question)
    levels = [each for each in output.levels if each.merges]
    features, groups = _recent(reading, output)
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


def _output(reading: Reading, question: PoolQuestion) -> PoolOutput:
    """The pool that is asked about. Raises `RequestError` (404) saying which there are."""
    kept = _compared.setdefault(reading, Kept())
    # P-values take a bootstrap. Of a moment that has just been there may still be records to come.
    fixed = question.at is not None and question.at < reading.clock() - SILENT_S
    return kept.get((question.pool, question.at), lambda: _compare(reading, question), fixed=fixed)


def _compare(reading: Reading, question: PoolQuestion) -> PoolOutput:
    name = printable(question.pool[:100])
    try:
        found = pool_at(reading.bus, reading.topics, comparing(reading.settings), question.pool, question.at)
    except OutsideError as error:
        reach = f"a moment from {moment(error.first)} to {moment(error.last)}"
        raise RequestError(404, f"nothing is recorded of pool {name} at {moment(error.ts)}", reach) from None
    if found is not None:
        return found
    known = known_keys(reading.bus, reading.topics.name(POOLS))
    if question.pool in known:
        raise RequestError(404, f"the members of {name} have not been compared yet", "a question in a minute")
    listed = ", ".join(map(printable, known[:LISTED])) + (", ..." if len(known) > LISTED else "")
    expected = f"one of {listed}" if known else _where_from(reading)
    raise RequestError(404, f"nothing is recorded of pool {name}", expected)


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
    merges = [_merge(level, number, at) for number in range(len(level.merges))]
    heading = printable(level_heading(level))
    return PoolLevel(level.path, heading, leaves, merges, highest(level), ticks(highest(level), AXIS_TICKS))


def _merge(level: LevelOutput, number: int, at: Sequence[float]) -> PoolMerge:
    first, second, height, members = level.merges[number]
    return PoolMerge(first, second, height, level.p_values[number], members, at[len(level.leaves) + number])


def _recent(reading: Reading, output: PoolOutput) -> tuple[list[str], set[str]]:
    """What members are measured by, what sets some apart first; and the paths of groups that have members."""
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


# Series.


def series(reading: Reading, question: SeriesQuestion) -> PoolSeries:
    """The means of some members of a pool, beside the others."""
    output = _output(reading, question)
    path = question.level
    if path is None:
        path = output.levels[0].path if output.levels else ""
    level = next((each for each in output.levels if each.path == path), None)
    compared = [] if level is None else [leaf.label for leaf in level.leaves]
    chosen, merge = _chosen(question, level)
    feature = question.feature or _telling(reading, output, path, chosen)
    end_ts = output.ts if question.at is None else min(question.at + AFTER_S, reading.clock())
    end_ts = end_ts if question.to is None else question.to
    begin_ts = end_ts - CONTEXT_S if question.from_ is None else question.from_
    if not 0.0 <= begin_ts <= end_ts <= begin_ts + LONGEST_S + BIN_S:
        raise RequestError(400, "parameters 'from' and 'to' are wrong", f"at most {LONGEST_S:g} s, 'from' before 'to'")
    means = read_means(reading.bus, reading.topics.name(POOLS), question.pool, feature, (begin_ts, end_ts))
    found = beside(means, path, compared, chosen)
    if not found.chosen and (question.member or path):
        what = f"{printable((question.member or path)[:100])!r}"
        raise RequestError(404, f"nothing was measured of {what} then", "a leaf, or the path of a level, of the pool")
    names = dict(zip(compared, short_labels(compared), strict=True))
    lines = [
        PoolLine(label, printable(names.get(label, label)), values)
        for label, values in zip(found.labels, found.values.T.tolist(), strict=True)
    ]
    return PoolSeries(
        feature=feature,
        level=path,
        bin_s=BIN_S,
        ts=found.ts.tolist(),
        lines=lines,
        chosen=found.chosen,
        others=found.others,
        everybody=found.everybody,
        median=found.median.tolist(),
        low=found.low.tolist(),
        high=found.high.tolist(),
        merge=merge,
    )


def _chosen(question: SeriesQuestion, level: LevelOutput | None) -> tuple[tuple[str, ...] | None, PoolMerge | None]:
    """The labels that are asked for, None for all; and the merge that made their cluster."""
    if not question.member:
        return None, None
    if not question.with_ or question.with_ == question.member:
        return (question.member,), None
    found = None if level is None else cluster(level, question.member, question.with_)
    if level is None or found is None:
        pair = f"{printable(question.member[:100])!r} and {printable(question.with_[:100])!r}"
        raise RequestError(404, f"no cluster of {pair} is there", "two leaves of the dendrogram")
    number, labels = found
    return labels, _merge(level, number - len(level.leaves), places(level))


def _telling(reading: Reading, output: PoolOutput, level: str, chosen: Sequence[str] | None) -> str:
    """The feature that tells most of these members, else of the level, else of the pool."""
    wanted = set(chosen or ())
    told = [each for each in output.ranking if each.features]
    closest = sorted(told, key=lambda each: (wanted.isdisjoint(each.rows), each.level != level))
    features = [closest[0].features[0].feature] if closest else _recent(reading, output)[0]
    if not features:
        raise RequestError(404, f"nothing is measured of pool {printable(output.pool[:100])}", "a pool that is")
    return features[0]


ENDPOINTS: Final = (
    Endpoint("/pools", "The pools, those in which members deviate most first.", Pools, pools, PoolsQuestion),
    Endpoint("/pools/pool", "One pool: who deviates, and the dendrograms that show it.", Pool, pool, PoolQuestion),
    Endpoint(
        "/pools/series",
        "Members of a pool beside the others, as means of two minutes.",
        PoolSeries,
        series,
        SeriesQuestion,
    ),
)
