"""`laggard pools`: the members of a pool that deviate from the others, and the dendrograms that show it."""

from __future__ import annotations

import json
import math
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from laggard.pipeline.cli.exits import NO_DATA, USAGE, CommandError
from laggard.pipeline.cli.opening import existing_bus, topics_of
from laggard.pipeline.cli.options import json_lines_option, past_moment, to_type, with_settings
from laggard.pipeline.cli.pages import console_of, page_of, write
from laggard.pipeline.cli.times import FORMS
from laggard.pipeline.core.records import RecordError
from laggard.pipeline.core.records.outputs import write_output
from laggard.pipeline.core.topics import POOLS
from laggard.pipeline.explaining.explain import printable
from laggard.pipeline.explaining.names import similar_or_first
from laggard.pipeline.explaining.units import counted
from laggard.pipeline.history.rebuilding import known_keys
from laggard.pipeline.history.report import moment
from laggard.pipeline.history.why import OutsideError
from laggard.pipeline.methods.pools.dendrogram import members_of
from laggard.pipeline.methods.pools.method import pool_stage
from laggard.pipeline.methods.pools.queries import by_worst, pool_at, replayed_pools, standing_of, standings
from laggard.pipeline.methods.pools.report import FEWEST, pool_lines, pool_svg, pools_lines, standing_json, where_from
from laggard.pipeline.methods.pools.settings import PoolsSettings

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.text import Text

    from laggard.pipeline.core.records.pools import PoolOutput
    from laggard.pipeline.methods.pools.queries import Standing
    from laggard.pipeline.settings import Settings

LISTED: Final = 10
"""The most pools that an error names."""

STANDARD: Final = "-"

_FILE: Final = click.Path(dir_okay=False, writable=True, allow_dash=True)


@click.command()
@with_settings
@click.argument("pool", metavar="[POOL]", default="")
@click.option("--at", metavar="TIME", help=f"The moment: {FORMS}.  [default: now]")
@click.option(
    "--file",
    "path",
    metavar="FILE",
    help="Read the output of `laggard replay --json` from this file, or from - (standard input).  [default: the bus]",
)
@click.option("--svg", type=_FILE, metavar="FILE", help="Write the dendrograms of POOL, for a browser.")
@json_lines_option
def pools(settings: Settings, *, pool: str, at: str | None, path: str | None, svg: str | None, as_json: bool) -> None:
    """Show the members of pools that deviate from the others: of POOL with dendrograms, otherwise in a line each.

    The members of a pool should behave alike: threads, prefork workers, replicas, hosts. Without --file POOL is
    compared from scratch over its whole life, from the top down: first hosts or other groups, then the members of those
    that deviate. The numbers at merges are approximately unbiased p-values in percent.

    FILE of --svg may be `-` for standard output, instead of the page. With --json it prints a record of the kind
    `pool`, whose fields deploy/docs/reference/anomalies.md explains. Without POOL it prints one per pool, with only
    `pool`, `ts`, `members` and `ranking`. The exit code is 3 if nothing is recorded of the pool or the moment.
    """
    _check(pool, svg, as_json=as_json)
    now = time.time()
    ts = past_moment(at, now)
    outputs = [] if path is None else _of_file(path, ts)
    if pool:
        output = _of_bus(settings, pool, at, ts) if path is None else _named(outputs, pool, path)
        _write_pool(settings, output, svg, now, path, as_json=as_json)
    elif path is None:
        found = _standings(settings, ts)
        _write_all(settings, found, now if ts is None else ts, path, as_json=as_json)
    else:
        _write_all(settings, by_worst(map(standing_of, outputs)), math.nan, path, as_json=as_json)


def _check(pool: str, svg: str | None, *, as_json: bool) -> None:
    """Reject arguments that do not fit together, before any work."""
    if svg is None:
        return
    if not pool:
        raise click.UsageError("--svg draws one pool; expected a POOL")
    if svg == STANDARD and as_json:
        raise click.UsageError("only one of --json and --svg can go to standard output")
    if svg != STANDARD and not Path(svg).parent.is_dir():
        raise click.BadParameter(f"{svg}: there is no such folder", param_hint="--svg")


# The pools of a file.


def _of_file(path: str, ts: float | None) -> list[PoolOutput]:
    try:
        with click.open_file(path, "rb") as lines:
            found = replayed_pools(lines, path, ts)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}", NO_DATA) from None
    except RecordError as error:
        raise CommandError(f"{error}; expected what `laggard replay --json` prints", USAGE) from None
    if not found:
        when = "" if ts is None else f" up to {moment(ts)}"
        raise CommandError(f"{path}: it has no output on pools{when}", NO_DATA)
    return found


def _named(outputs: Sequence[PoolOutput], pool: str, path: str) -> PoolOutput:
    for each in outputs:
        if each.pool == pool:
            return each
    raise CommandError(f"{path}: {_others(pool, [each.pool for each in outputs])}", NO_DATA)


# The pools on the bus.


def _of_bus(settings: Settings, pool: str, at: str | None, ts: float | None) -> PoolOutput:
    with existing_bus(settings) as bus:
        topics = topics_of(settings)
        try:
            found = pool_at(bus, topics, pool_stage(settings), pool, ts)
        except OutsideError as error:
            raise CommandError(_outside(error, at), NO_DATA) from None
        if found is None:
            known = known_keys(bus, topics.name(POOLS))
            if pool in known:
                raise CommandError(f"the members of {pool} have not been compared yet; ask again in a minute", NO_DATA)
            raise CommandError(unknown(settings, pool, known), NO_DATA)
    return found


def _standings(settings: Settings, ts: float | None) -> list[Standing]:
    with existing_bus(settings) as bus:
        found = standings(bus, topics_of(settings), ts)
    if not found:
        none = _none(settings) if ts is None else f"there are no records of pools up to {moment(ts)}"
        raise CommandError(none, NO_DATA)
    return found


def _none(settings: Settings) -> str:
    return where_from(to_type(settings, "up"), discovers=settings[PoolsSettings].discover)


def unknown(settings: Settings, pool: str, known: Sequence[str]) -> str:
    """Return the error for an unknown pool, which names recorded ones, or says where pools come from."""
    return _others(pool, known) if known else _none(settings)


def _others(pool: str, known: Sequence[str]) -> str:
    return f"there are no records of pool {printable(pool)}; {similar_or_first(pool, known, LISTED)}"


def _outside(error: OutsideError, at: str | None) -> str:
    reach = f"from {moment(error.first)} to {moment(error.last)}"
    return f"there are no records of pool {error.host} at {at}; its history goes {reach}"


# The output.


def _write(lines: Iterable[Text]) -> None:
    write(lines, console_of(sys.stdout))


def _write_all(settings: Settings, shown: Sequence[Standing], now: float, path: str | None, *, as_json: bool) -> None:
    if as_json:
        for each in shown:
            click.echo(json.dumps(standing_json(each), separators=(",", ":"), allow_nan=False))
        return
    _write(pools_lines(shown, now))
    command = to_type(settings, "pools", shown[0].pool, *_from(path))
    click.echo(f"\nNext: `{command}` for all details")


def _write_pool(
    settings: Settings, output: PoolOutput, svg: str | None, now: float, path: str | None, *, as_json: bool
) -> None:

    if svg is not None:
        _write_svg(output, svg)
    if as_json:
        click.echo(write_output(output))
    elif svg != STANDARD:
        if not output.ranking and max([output.members, *map(members_of, output.levels)]) < FEWEST:
            raise CommandError(_too_few(output), NO_DATA)

        _write(pool_lines(output, page_of(console_of(sys.stdout)), now))
        if svg is None and any(level.merges for level in output.levels):
            command = to_type(settings, "pools", output.pool, *_from(path), "--svg", "pool.svg")
            click.echo(f"\nNext: `{command}` draws it for a browser")


def _from(path: str | None) -> list[str]:
    return [] if path is None else ["--file", path]


def _too_few(output: PoolOutput) -> str:
    has = f"{printable(output.pool)} has {counted(output.members, 'member')}"
    return f"{has}; at least {FEWEST} are needed to find the one that deviates"


def _write_svg(output: PoolOutput, path: str) -> None:
    if not any(level.merges for level in output.levels):
        raise CommandError(f"cannot draw {output.pool}: it has no dendrogram", NO_DATA)
    text = pool_svg(output)
    if path == STANDARD:
        click.echo(text, nl=False)
        return
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"--svg {path}: {error.strerror or error}") from None
    click.echo(f"Wrote {path}", err=True)
