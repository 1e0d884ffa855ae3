"""Reports on pools for a terminal: all pools, their deviating members, and dendrograms."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from laggard.pipeline.core.records.strict_json import json_number
from laggard.pipeline.explaining.explain import pid_of, printable, shortened
from laggard.pipeline.explaining.units import counted, readable, readable_duration, readable_usual
from laggard.pipeline.history.report import NARROW, clock, moment, score_digits
from laggard.pipeline.methods.pools.dendrogram import folded, members_of, without_starts
from laggard.pipeline.methods.pools.drawing import HARMLESS, dendrogram_lines
from laggard.pipeline.methods.pools.drawing_svg import Picture, dendrogram_svg
from laggard.pipeline.methods.pools.text import NOBODY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from laggard.operators.ranking import FeatureScore
    from laggard.pipeline.core.records.pools import LevelOutput, PoolOutput, Ranked
    from laggard.pipeline.history.report import Page
    from laggard.pipeline.methods.pools.queries import Standing

FEWEST: Final = 3
"""The least number of compared members: of two, either one could be the outlier."""

MOST_PICTURED: Final = 64
"""The most leaves of one dendrogram in a file."""

SHOWN_FEATURES: Final = 3

SILENT_S: Final = 90.0
"""A pool without a newer frame for this time, in seconds, is reported as silent."""

_HEADS: Final = ("pool", "members", "worst", "score", "since")
_NUMBERS: Final = ("members", "score")
"""The right-aligned columns."""

_LONGEST_NAME: Final = 40
_FEATURE: Final = 48  # columns right of the name of a feature


def where_from(start: str, *, discovers: bool) -> str:
    """Return a hint on the sources of pools, for when there are none.

    Args:
        start: the command that starts laggard here.
        discovers: whether the agent discovers pools itself.

    """
    finds = f"`{start}` finds prefork workers by itself"
    if not discovers:
        finds = "pools.discover = true lets the agent find prefork workers by itself"
    more = "pools.threads names processes whose threads are compared, pools.members processes and hosts that are"
    return f"there are no records of pools; {finds}, {more}, and [[sources]] with a pool replicas"


def pools_lines(standings: Sequence[Standing], now: float) -> Iterator[Text]:
    """Return a line for each pool; those with deviating members stand out.

    Args:
        standings: the pools in the order of the lines, at least one.
        now: the present time, seconds since the Unix epoch; NaN for recorded data.

    """
    rows = [_row(one, now) for one in standings]
    widths = [max(map(len, column)) for column in zip(_HEADS, *rows, strict=True)]
    yield Text(_aligned(_HEADS, widths), "dim")
    for one, row in zip(standings, rows, strict=True):
        line = Text(_aligned(row, widths), "bold red" if _worst(one) else "")
        if now - one.ts > SILENT_S:
            line.append(f"  silent for {readable_duration(now - one.ts)}", "yellow")
        yield line


def _worst(standing: Standing) -> Ranked | None:
    found = [each for each in standing.ranking if each.kind != HARMLESS]
    return found[0] if found else None


def _row(standing: Standing, now: float) -> tuple[str, ...]:
    worst = _worst(standing)
    members = "-" if standing.members is None else f"{standing.members:,}"
    begin = (shortened(printable(standing.pool), _LONGEST_NAME), members)
    if worst is None:
        return (*begin, "-", "-", "-")
    pid = pid_of(worst.rows[0]) if len(worst.rows) == 1 else None
    name = shortened(printable(worst.name), _LONGEST_NAME) + ("" if pid is None else f"[{pid}]")
    return (*begin, f"{name} ({worst.kind})", score_digits(worst.score), _since(worst, now))


def _since(ranked: Ranked, now: float) -> str:
    if math.isnan(ranked.begin_ts):
        return "-"
    if not math.isnan(ranked.end_ts):
        return f"{moment(ranked.begin_ts)} to {clock(ranked.end_ts)}"
    lasted = "" if math.isnan(now) else f" ({readable_duration(max(now - ranked.begin_ts, 0.0))})"
    return f"{moment(ranked.begin_ts)}{lasted}"


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [
        f"{cell:>{width}}" if head in _NUMBERS else f"{cell:{width}}"
        for head, cell, width in zip(_HEADS, row, widths, strict=True)
    ]
    return "  ".join(cells).rstrip()


def standing_json(standing: Standing) -> dict[str, Any]:
    """Return the state of a pool for programs, with fields as in a record of the kind `pool`."""
    return {
        "pool": standing.pool,
        "ts": json_number(standing.ts),
        "members": standing.members,
        "ranking": [each.to_json() for each in standing.ranking],
    }


def pool_lines(output: PoolOutput, page: Page, now: float) -> Iterator[Text]:
    """Return the report on one pool: deviations in words and numbers, and dendrograms from the top down."""
    ago = f", {readable_duration(max(now - output.ts, 0.0))} ago" if output.live else ""
    yield Text(f"{printable(output.pool)} at {moment(output.ts)}{ago}: {counted(output.members, 'member')}", "dim")
    yield Text()
    if not output.ranking:
        yield Text(NOBODY)
    shown = [feature for each in output.ranking for feature in each.features[:SHOWN_FEATURES]]
    longest = min(max((len(each.feature) for each in shown), default=0), max(page.width - _FEATURE, 8))
    for each in output.ranking:
        yield from _ranked_lines(each, longest, page)
    yield Text(belief(output), "dim")
    levels = [level for level in output.levels if level.merges]
    paths = _paths(output)
    for level in levels:
        yield Text()
        yield Text(printable(level_heading(level)), "bold")
        yield from dendrogram_lines(folded(level), page, paths)
    if levels:
        yield Text()
        yield from (Text(line, "dim") for line in _legend(levels))


def _paths(output: PoolOutput) -> frozenset[str]:
    return frozenset(level.path for level in output.levels if level.path)


def level_heading(level: LevelOutput) -> str:
    """Return the heading of a dendrogram: its group, and the number of members or groups that it compares."""
    return f"{f'Inside {without_starts(level.path)}' if level.path else 'The pool'}: {members_of(level):,} compared"


def _ranked_lines(ranked: Ranked, longest: int, page: Page) -> Iterator[Text]:
    style = "" if ranked.kind == HARMLESS else "bold"
    yield Text(f"{score_digits(ranked.score):>6}  ").append(printable(ranked.sentence), style)
    for each in ranked.features[:SHOWN_FEATURES]:
        yield from _feature_lines(each, longest, page)


def _feature_lines(feature: FeatureScore, longest: int, page: Page) -> Iterator[Text]:
    line = Text(f"{'':8}{shortened(printable(feature.feature), longest):<{longest}}  ")
    line.append(f"{readable(feature.feature, feature.value):>10}", "bold")
    usual = f"the pool {readable_usual(feature.feature, feature.mean, feature.standard_deviation)}"
    if page.width < NARROW:
        yield line
        yield Text(f"{'':10}{usual}", "dim")
    else:
        yield line.append(f"  {usual}", "dim")


def belief(output: PoolOutput) -> str:
    """Return a sentence on the reliability of a comparison."""
    age = readable_duration(output.age_s)
    if output.young:
        return f"The comparison is young: the pool has been compared for {age} only."
    return f"The pool has been compared for {age}."


def _legend(levels: Sequence[LevelOutput]) -> Iterator[str]:
    if any(not math.isnan(each) for level in levels for each in level.p_values):
        yield "Numbers: approximately unbiased p-values in percent; 100 is a cluster that the data support best."
    if any(len(folded(level).leaves) < members_of(level) for level in levels):
        yield "A double line is a cluster that is not drawn one by one; it ends where its own members have merged."


def pool_svg(output: PoolOutput) -> str:
    """Return the dendrograms of a pool as one SVG, from the top down."""
    title = f"{output.pool} at {moment(output.ts)}: {counted(output.members, 'member')}"
    sentences = [each.sentence for each in output.ranking] or [NOBODY]
    pictures = [Picture(level_heading(level), folded(level, MOST_PICTURED)) for level in output.levels if level.merges]
    return dendrogram_svg(title, " ".join(sentences), pictures)
