"""`laggard requests`: outlying requests, their causes, and the critical path of one of them."""

from __future__ import annotations

import json
import math
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from laggard.pipeline.cli.exits import NO_DATA, USAGE, CommandError
from laggard.pipeline.cli.groups import ShowGroup
from laggard.pipeline.cli.opening import existing_bus, topics_of
from laggard.pipeline.cli.options import json_lines_option, past_moment, seconds, to_type, with_settings
from laggard.pipeline.cli.pages import console_of, page_of, write
from laggard.pipeline.cli.times import FORMS
from laggard.pipeline.core.records import RecordError, write_line
from laggard.pipeline.core.records.outputs import write_output
from laggard.pipeline.core.topics import REQUESTS
from laggard.pipeline.explaining.explain import printable
from laggard.pipeline.explaining.names import nearest, similar_or_first
from laggard.pipeline.explaining.units import readable_duration
from laggard.pipeline.history.rebuilding import known_keys
from laggard.pipeline.history.report import moment
from laggard.pipeline.methods.requests.drawing_svg import path_svg
from laggard.pipeline.methods.requests.queries import RequestsFound, find, lately, named, read_requests, summaries
from laggard.pipeline.methods.requests.report import (
    SHOWN_CLUSTERS,
    listed,
    recording,
    request_lines,
    summaries_lines,
    summary_json,
)
from laggard.pipeline.methods.requests.stored import requests_on

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.text import Text

    from laggard.pipeline.core.bus import Bus
    from laggard.pipeline.core.records import Request
    from laggard.pipeline.core.records.requests import RequestOutput
    from laggard.pipeline.methods.requests.queries import Found, Summary
    from laggard.pipeline.settings import Settings

LISTED: Final = 5
"""The most services or requests that an error names."""

STANDARD: Final = "-"

_file_option = click.option(
    "--file",
    "paths",
    metavar="FILE",
    multiple=True,
    help="Read requests as JSON lines, or the output of `laggard replay --json`, from this file, or from - (standard "
    "input); repeatable.  [default: the bus]",
)


@click.group(
    cls=ShowGroup,
    context_settings={"help_option_names": ["-h", "--help"], "ignore_unknown_options": True},
    options_metavar="",
    subcommand_metavar="[COMMAND|SERVICE] [OPTIONS]",
)
def requests() -> None:
    """Show outlying requests and their causes: the durations of each service, and its clusters of outlying requests.

    `laggard requests path ID` draws where the time of one request went. `laggard requests show --help` lists the
    options.
    """


@requests.command(short_help="Show durations, and clusters of outlying requests.")
@with_settings
@click.argument("service", metavar="[SERVICE]", default="")
@click.option("--at", metavar="TIME", help=f"The end of the time: {FORMS}.  [default: now]")
@click.option(
    "--since",
    "since_s",
    default="1h",
    show_default=True,
    metavar="DURATION",
    callback=seconds,
    help="Cover requests that began within this time before --at; by default all of a file.",
)
@_file_option
@json_lines_option
def show(
    settings: Settings, *, service: str, at: str | None, since_s: float, paths: tuple[str, ...], as_json: bool
) -> None:
    """Show the durations of normal and outlying requests, and what clusters of outlying ones have in common.

    With SERVICE it shows all its clusters, but at most 5 of those with one request. Otherwise it shows the 5 clusters
    of each service that took the most time. With --json it prints an object for each service. The exit code is 3 if no
    such request is recorded.
    """
    now = time.time()
    end = past_moment(at, now)
    given = click.get_current_context().get_parameter_source("since_s") is not click.core.ParameterSource.DEFAULT
    begin = -math.inf if paths and not given else (now if end is None else end) - since_s
    recorded = _of_files(paths) if paths else _of_bus(settings, begin, now if end is None else end, service)
    found = summaries(recorded, begin, math.inf if end is None else end, service)
    if not found:
        raise CommandError(_none(settings, service, paths, at, since_s if given or not paths else None), NO_DATA)
    if as_json:
        for each in found:
            click.echo(json.dumps(summary_json(each), separators=(",", ":"), allow_nan=False))
        return
    _write_all(settings, found, now if at is None and not paths else math.nan, paths, everything=bool(service))


@requests.command(short_help="Draw the critical path of a request.")
@with_settings
@click.argument("identity", metavar="ID")
@click.option("--service", default="", help="The service.  [default: all]")
@_file_option
@click.option(
    "--svg",
    type=click.Path(dir_okay=False, writable=True, allow_dash=True),
    metavar="FILE",
    help="Write the path as a picture, for a browser.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines, for programs.")
def path(
    settings: Settings, *, identity: str, service: str, paths: tuple[str, ...], svg: str | None, as_json: bool
) -> None:
    """Draw the critical path of the request with this ID, or prefix of an id: a lane per thread, a block per state.

    The path shows what the request waited for, from thread to thread. An arrow marks each change to another thread.
    FILE of --svg may be `-` for standard output, instead of the page. With --json it prints the request as a line that
    `laggard replay` reads. If the request is an outlier, a second line is the result on it.
    """
    if svg not in {None, STANDARD} and not Path(str(svg)).parent.is_dir():
        raise click.BadParameter(f"{svg}: there is no such folder", param_hint="--svg")
    if svg == STANDARD and as_json:
        raise click.UsageError("only one of --json and --svg can go to standard output")
    found = _one(settings, identity, service, paths)
    if svg is not None:
        _write_svg(found, svg)
    if as_json:
        _write_json(found)
    elif svg != STANDARD:
        _write(request_lines(found, page_of(console_of(sys.stdout))))
        if svg is None and found.request.path:
            again = to_type(settings, "requests", "path", found.request.request, *_from(paths), "--svg", "path.svg")
            click.echo(f"\nNext: `{again}` draws it for a browser")


# The source of the requests.


def _records(paths: Iterable[str]) -> list[Request | RequestOutput]:
    found: list[Request | RequestOutput] = []
    for each in paths:
        try:
            with click.open_file(each, "rb") as lines:
                found += read_requests(lines, each)
        except OSError as error:
            raise CommandError(f"{each}: {error.strerror}", NO_DATA) from None
        except RecordError as error:
            expected = "requests as JSON lines, or what `laggard replay --json` prints"
            raise CommandError(f"{error}; expected {expected}", USAGE) from None
    return found


def _of_files(paths: Sequence[str]) -> RequestsFound:
    recorded = RequestsFound()
    for each in _records(paths):
        recorded.add(each)
    return recorded


def _bus(settings: Settings) -> Bus:
    """Open the bus. Raises `CommandError` if nothing was ever recorded, or this user may not see it."""
    try:
        return existing_bus(settings)
    except CommandError as error:
        if error.exit_code != NO_DATA:
            raise
        raise CommandError(no_requests(settings), NO_DATA) from None


def _of_bus(settings: Settings, begin: float, end: float, service: str) -> RequestsFound:
    with _bus(settings) as bus:
        return requests_on(bus, topics_of(settings), begin, end, service)


def _one(settings: Settings, identity: str, service: str, paths: Sequence[str]) -> Found:
    """Return the requested request. Raises `CommandError` if there is none, or several have its id."""
    known: Sequence[Request | RequestOutput]
    if paths:
        known = _records(paths)
        found = named(known, identity, service)
    else:
        with _bus(settings) as bus:
            found = find(bus, topics_of(settings), identity, service)
            known = [] if found else lately(bus, topics_of(settings))
    if not found:
        raise CommandError(_unknown(settings, identity, service, known, paths), NO_DATA)
    if len(found) > 1:
        raise CommandError(_several(identity, found), NO_DATA)
    return found[0]


# The errors.


def _none(settings: Settings, service: str, paths: Sequence[str], at: str | None, since_s: float | None) -> str:
    """Return the error for no request: which services or earlier requests are recorded, or how to record them."""
    of = f" of {printable(service)}" if service else ""
    when = "" if since_s is None else f" within {readable_duration(since_s)}{f' before {at}' if at else ''}"
    if paths:
        return f"{', '.join(paths)}: there is no request{of}{when} in it"

    with _bus(settings) as bus:
        services = known_keys(bus, topics_of(settings).name(REQUESTS))
        newest = [each for each in lately(bus, topics_of(settings)) if service in {"", each.service}]
    if not services:
        return no_requests(settings)
    if service and service not in services:
        return unknown(settings, service, services)
    if not newest:
        return f"no request{of} is recorded{when}; --since looks further back"
    return f"no request{of} is recorded{when}; the newest one began at {moment(newest[0].ts)}"


def unknown(settings: Settings, service: str, known: Sequence[str]) -> str:
    """Return the error for an unknown service, which names recorded ones."""
    if not known:
        return no_requests(settings)
    return f"there are no records of service {printable(service)}; {similar_or_first(service, known, LISTED)}"


def no_requests(settings: Settings) -> str:
    """Return the error for a bus without requests: how to record them."""
    return f"no request is recorded; {recording(partial(to_type, settings))}"


def _unknown(
    settings: Settings,
    identity: str,
    service: str,
    known: Sequence[Request | RequestOutput],
    paths: Sequence[str],
) -> str:
    """Return the error for an unknown id, which names similar ids, or the newest ones."""
    if not known:
        return f"{', '.join(paths)}: there is no request in it" if paths else no_requests(settings)
    of = f" of {printable(service)}" if service else ""
    ids = {each.request: each for each in sorted(known, key=lambda each: each.ts) if service in {"", each.service}}
    if not ids:
        return unknown(settings, service, sorted({each.service for each in known}))
    near = nearest(identity, list(ids))
    shown = [ids[each] for each in near] or list(ids.values())[: -LISTED - 1 : -1]
    return (
        f"no request{of} with the id {printable(identity)} is recorded; "
        f"{'similar:' if near else 'the newest:'} {', '.join(listed(shown))}"
    )


def _several(identity: str, matches: Sequence[Found]) -> str:
    more = ", ..." if len(matches) > LISTED else ""
    shown = ", ".join(listed(each.request for each in matches[:LISTED]))
    hint = "; expected a longer part of the id"
    if len({each.request.request for each in matches}) == 1:
        hint = "; --service chooses one"
    return f"{len(matches):,} requests have an id that begins with {printable(identity)}: {shown}{more}{hint}"


# The output.


def _write(lines: Iterable[Text]) -> None:
    write(lines, console_of(sys.stdout))


def _write_all(
    settings: Settings, services: Sequence[Summary], now: float, paths: Sequence[str], *, everything: bool
) -> None:

    most = sys.maxsize if everything else SHOWN_CLUSTERS
    _write(summaries_lines(services, page_of(console_of(sys.stdout)), now, most))
    click.echo()
    if clusters := services[0].clusters:
        command = to_type(settings, "requests", "path", clusters[0].example, *_from(paths))
        click.echo(f"Next: `{command}` draws where the time of one went")
    elif paths:
        click.echo("These files name no outlying requests; `laggard replay FILE --json` looks for some")
    else:
        click.echo("No outlying requests.")


def _write_json(found: Found) -> None:
    click.echo(write_line(found.request))
    if found.output is not None:
        click.echo(write_output(found.output))


def _write_svg(found: Found, path: str) -> None:
    if not found.request.path:
        raise CommandError(f"cannot draw {found.request.request}: its critical path is unknown", NO_DATA)
    text = path_svg(found.request)
    if path == STANDARD:
        click.echo(text, nl=False)
        return
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"--svg {path}: {error.strerror or error}") from None
    click.echo(f"Wrote {path}", err=True)


def _from(paths: Sequence[str]) -> list[str]:
    return [word for each in paths for word in ("--file", each)]
