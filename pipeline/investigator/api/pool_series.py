"""Time series of the members of a pool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from laggard.pipeline.core.topics import POOLS
from laggard.pipeline.explaining.explain import printable
from laggard.pipeline.history.series import CONTEXT_S
from laggard.pipeline.investigator.api.pools import (
    LevelPath,
    PoolMerge,
    PoolQuestion,
    merge_of,
    output_of,
    recent_members,
)
from laggard.pipeline.investigator.endpoint import Answer, Counter, Endpoint, Number, Text, Time
from laggard.pipeline.methods.pools.dendrogram import places, short_labels
from laggard.pipeline.methods.pools.series import BIN_S, LONGEST_S, beside, cluster, read_means
from laggard.pipeline.web.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.pipeline.core.records.pools import LevelOutput, PoolOutput
    from laggard.pipeline.investigator.reading import Reading

AFTER_S: Final = 600.0
"""The time that a series continues after the moment, in seconds, if data is there."""


class PoolLine(Answer, frozen=True):
    """The means of a member or a group."""

    label: Annotated[str, msgspec.Meta(description="the label of the member or group in the dendrogram")]
    name: Annotated[str, msgspec.Meta(description="a short name, unique in its level")]
    values: Annotated[
        list[Number],
        msgspec.Meta(description="the mean in each bin, in the unit of the feature; null without a measurement"),
    ]


class PoolSeries(Answer, frozen=True):
    """Members, and the others of the pool at the same time: means over bins of `bin_s` seconds."""

    feature: Counter
    level: LevelPath
    bin_s: Annotated[float, msgspec.Meta(description="the length of a bin, in seconds")]
    ts: Annotated[list[float], msgspec.Meta(description="the middle of each bin, seconds since the Unix epoch")]
    lines: Annotated[
        list[PoolLine],
        msgspec.Meta(
            description="the requested members or groups that are farthest from the others, farthest first, at most 5"
        ),
    ]
    chosen: Annotated[int, msgspec.Meta(description="the number of requested members or groups")]
    others: Annotated[
        int, msgspec.Meta(description="the number of the other members or groups; of all if all were requested")
    ]
    all_members: Annotated[bool, msgspec.Meta(description="whether all members or groups were requested")]
    median: Annotated[
        list[Number],
        msgspec.Meta(
            description="the median of the others in each bin, in the unit of the feature; null without a measurement"
        ),
    ]
    low: Annotated[list[Number], msgspec.Meta(description="the lower quartile of the others in each bin, likewise")]
    high: Annotated[list[Number], msgspec.Meta(description="the upper quartile of the others in each bin, likewise")]
    merge: Annotated[
        PoolMerge | None, msgspec.Meta(description="the merge that made the requested cluster; null without `with`")
    ]


class SeriesQuestion(PoolQuestion, frozen=True, rename={"with_": "with", "from_": "from"}):
    """A member, group or cluster, a feature and a time range.

    By default all of the top level, its most distinctive feature, and four hours.
    """

    level: Annotated[
        str | None, msgspec.Meta(description="the path of the level; by default the highest one that is compared")
    ] = None
    member: Annotated[
        str, msgspec.Meta(description="the label of a leaf; empty for all of the level", max_length=4096)
    ] = ""
    with_: Annotated[
        str,
        msgspec.Meta(
            description="the label of another leaf: the smallest cluster with both is requested; empty for none",
            max_length=4096,
        ),
    ] = ""
    feature: Annotated[
        Text, msgspec.Meta(description="the name of the feature; empty for the most distinctive one")
    ] = ""
    from_: Time | None = None
    to: Time | None = None


# Series.


def series(reading: Reading, question: SeriesQuestion) -> PoolSeries:
    """Return the means of some members of a pool, and those of the others."""
    output = output_of(reading, question)
    path = question.level
    if path is None:
        path = output.levels[0].path if output.levels else ""
    level = next((each for each in output.levels if each.path == path), None)
    compared = [] if level is None else [leaf.label for leaf in level.leaves]
    chosen, merge = _chosen(question, level)
    feature = question.feature or _distinctive(reading, output, path, chosen)
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
        all_members=found.everybody,
        median=found.median.tolist(),
        low=found.low.tolist(),
        high=found.high.tolist(),
        merge=merge,
    )


def _chosen(question: SeriesQuestion, level: LevelOutput | None) -> tuple[tuple[str, ...] | None, PoolMerge | None]:
    """Return the requested labels, None for all, and the merge that made their cluster."""
    if not question.member:
        return None, None
    if not question.with_ or question.with_ == question.member:
        return (question.member,), None
    found = None if level is None else cluster(level, question.member, question.with_)
    if level is None or found is None:
        pair = f"{printable(question.member[:100])!r} and {printable(question.with_[:100])!r}"
        raise RequestError(404, f"no cluster of {pair} is there", "two leaves of the dendrogram")
    number, labels = found
    return labels, merge_of(level, number - len(level.leaves), places(level))


def _distinctive(reading: Reading, output: PoolOutput, level: str, chosen: Sequence[str] | None) -> str:
    """Return the most distinctive feature of these members; if they have none, of the level, then of the pool."""
    wanted = set(chosen or ())
    with_features = [each for each in output.ranking if each.features]
    closest = sorted(with_features, key=lambda each: (wanted.isdisjoint(each.rows), each.level != level))
    features = [closest[0].features[0].feature] if closest else recent_members(reading, output)[0]
    if not features:
        raise RequestError(404, f"nothing is measured of pool {printable(output.pool[:100])}", "a pool that is")
    return features[0]


ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    Endpoint(
        "/pools/series",
        "Members of a pool and the others, as means of two minutes.",
        PoolSeries,
        series,
        SeriesQuestion,
    ),
)
