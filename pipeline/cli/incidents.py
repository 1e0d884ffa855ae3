"""`laggard incidents`: present and past incidents, and the evidence of each operator for one of them."""

from __future__ import annotations

import math
import sys
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import click
from rich.text import Text

from laggard.pipeline.cli.exits import NO_DATA, CommandError
from laggard.pipeline.cli.models import unknown as unknown_application
from laggard.pipeline.cli.opening import existing_bus, topics_of
from laggard.pipeline.cli.options import json_lines_option, to_type, with_settings
from laggard.pipeline.cli.page import page_url
from laggard.pipeline.cli.pages import console_of, page_of, write
from laggard.pipeline.cli.pools import unknown as unknown_pool
from laggard.pipeline.cli.requests import unknown as unknown_service
from laggard.pipeline.cli.why import choose_host, write_doing
from laggard.pipeline.core.bus import BusError
from laggard.pipeline.core.records.outputs import write_output
from laggard.pipeline.core.topics import APPLICATIONS, POOLS, REQUESTS
from laggard.pipeline.explaining.explain import printable
from laggard.pipeline.explaining.units import readable_duration
from laggard.pipeline.history.rebuilding import known_keys
from laggard.pipeline.history.report import moment
from laggard.pipeline.history.why import History
from laggard.pipeline.methods.incidents.beside import beside_lines
from laggard.pipeline.methods.incidents.diagnosed import during
from laggard.pipeline.methods.incidents.queries import SHORT_ID, blamed_rows, past_incidents, past_notices
from laggard.pipeline.methods.incidents.report import incident_lines, table_lines
from laggard.pipeline.methods.incidents.silence import silent_hosts
from laggard.pipeline.methods.requests.beside import beside
from laggard.pipeline.methods.requests.stored import requests_on
from laggard.pipeline.settings.kinds import duration
from laggard.pipeline.wiring import asked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from laggard.pipeline.core.bus import Bus
    from laggard.pipeline.core.records.diagnosis import Diagnosis
    from laggard.pipeline.core.records.outputs import Incident
    from laggard.pipeline.methods.incidents.beside import Beside
    from laggard.pipeline.methods.incidents.queries import Past
    from laggard.pipeline.settings import Settings


def _seconds(context: click.Context, parameter: click.Parameter, value: str) -> float:  # noqa: ARG001
    try:
        return duration(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r}; expected {error}") from None


@click.command()
@with_settings
@click.argument("identity", metavar="[ID]", default="")
@click.option("--open", "only_open", is_flag=True, help="Show only open ones.")
@click.option("--notices", is_flag=True, help="Show notices: suspicious, but not unusual enough for an incident.")
@click.option("--host", help="Show only this host.  [default: all]")
@click.option("--application", help="Show only this application.  [default: all]")
@click.option("--pool", help="Show only this pool.  [default: all]")
@click.option("--service", help="Show only this service.  [default: all]")
@click.option(
    "--since",
    "since_s",
    default="24h",
    show_default=True,
    metavar="DURATION",
    callback=_seconds,
    help="Show those that were open within this time.",
)
@json_lines_option
def incidents(
    settings: Settings,
    *,
    identity: str,
    only_open: bool,
    notices: bool,
    host: str | None,
    application: str | None,
    pool: str | None,
    service: str | None,
    since_s: float,
    as_json: bool,
) -> None:
    """List incidents, the newest first; with an ID, or a prefix of it, show that incident in full.

    An incident joins the anomalies of one host, application, pool or service that may have one cause.

    --json prints records of the kind `incident`; deploy/docs/reference/anomalies.md explains their fields.
    The exit code is 0 whether or not there is an incident. It is 3 if nothing is recorded, if no or several incidents
    have the ID, or if the host, application, pool or service is unknown. `laggard --help` lists all exit codes.
    """
    given = (host, "host"), (application, "application"), (pool, "pool"), (service, "service")
    filters = [(key, keyed_by) for key, keyed_by in given if key is not None]
    if len(filters) > 1:
        raise click.UsageError("--host, --application, --pool and --service exclude each other")
    if notices and (identity or (filters and host is None)):
        raise click.UsageError("--notices goes with --host, --open, --since and --json only")
    now = time.time()
    key, keyed_by = filters[0] if filters else (None, "")
    with existing_bus(settings) as bus:
        if notices:
            _write_notices(settings, bus, host, now - since_s, only_open=only_open, as_json=as_json)
            return
        since = -math.inf if identity else now - since_s
        past = past_incidents(bus, topics_of(settings), since, key=key, identity=identity.lower())
        if key is not None:  # an application, a pool or a service may have the name of a host
            past = replace(past, incidents=[one for one in past.incidents if one.keyed_by == keyed_by])
            if not past.incidents:  # it may be misspelled
                _CHECKS[keyed_by](settings, bus, key)
        found = [one for one in past.incidents if one.change != "closed" or not only_open]
        if identity and len(found) != 1:
            raise CommandError(not_one(settings, identity, found, only_open=only_open), NO_DATA)
        diagnoses = _find_diagnoses(settings, bus, found[0]) if identity and not as_json else []
        other = _find_beside(settings, bus, found[0], now) if identity and not as_json else None
        silent = {} if as_json else _silent(settings, bus, found, now)
    if as_json:
        for one in found:
            click.echo(write_output(one))
    elif identity:
        _write_one(settings, found[0], diagnoses, other, silent, now=now)
    else:
        _write(_listing(settings, found, past, silent, now, since_s=since_s, only_open=only_open))


def _write_notices(
    settings: Settings, bus: Bus, host: str | None, since: float, *, only_open: bool, as_json: bool
) -> None:
    """List the notices, the newest first; as JSON, the newest record of each."""
    found = past_notices(bus, topics_of(settings), since, key=host)
    found = [each for each in found if each.ended is None or not only_open]
    if host is not None and not found:
        _check_host(settings, bus, host)
    if as_json:
        for opened, ended in found:
            click.echo(write_output(ended or opened))
        return
    lines = []
    for opened, ended in found:
        how = "open"
        if ended is not None:
            how = readable_duration(ended.until_ts - opened.ts)
            how += ", became an anomaly" if ended.became else ""
        lines.append(Text(f"{moment(opened.ts)}  {printable(opened.key)}  {how}  {opened.sentence}"))
    _write(lines or [Text("No notices are open." if only_open else "No notices.")])


def _check_host(settings: Settings, bus: Bus, host: str) -> None:
    """Raise `CommandError` if nothing at all is recorded of a host: it may be misspelled."""
    choose_host(settings, History(bus, topics_of(settings), asked(settings)), host)


def _check_application(settings: Settings, bus: Bus, application: str) -> None:
    """Raise `CommandError` if nothing at all is recorded of an application."""
    known = known_keys(bus, topics_of(settings).name(APPLICATIONS))
    if application not in known:
        raise CommandError(unknown_application(application, known), NO_DATA)


def _check_service(settings: Settings, bus: Bus, service: str) -> None:
    """Raise `CommandError` if nothing at all is recorded of a service."""
    known = known_keys(bus, topics_of(settings).name(REQUESTS))
    if service not in known:
        raise CommandError(unknown_service(settings, service, known), NO_DATA)


def _check_pool(settings: Settings, bus: Bus, pool: str) -> None:
    """Raise `CommandError` if nothing at all is recorded of a pool."""
    known = known_keys(bus, topics_of(settings).name(POOLS))
    if pool not in known:
        raise CommandError(unknown_pool(settings, pool, known), NO_DATA)


_CHECKS: Final[Mapping[str, Callable[[Settings, Bus, str], None]]] = {
    "host": _check_host,
    "application": _check_application,
    "pool": _check_pool,
    "service": _check_service,
}


def not_one(settings: Settings, identity: str, found: Sequence[Incident], *, only_open: bool = False) -> str:
    """Return the error for a prefix of no id, or of several ids of incidents."""
    which = "open incident" if only_open else "incident"
    if not found:
        listing = to_type(settings, "incidents", "--since", "30d")
        return f"no {which} has an id that begins with {identity}; `{listing}` lists them"
    ids = ", ".join(one.id for one in found[:3]) + (", ..." if len(found) > 3 else "")
    return f"{len(found)} incidents have an id that begins with {identity}: {ids}"


def _find_diagnoses(settings: Settings, bus: Bus, incident: Incident) -> list[Diagnosis]:
    """Return the recorded diagnoses of an incident, those of culprits first."""
    try:
        return during(bus, topics_of(settings), incident)
    except BusError as error:
        click.secho(f"Cannot read diagnoses: {error}", fg="yellow", err=True)
        return []


def _find_beside(settings: Settings, bus: Bus, incident: Incident, now: float) -> Beside | None:
    """Return the report of the other method on an application or a service."""
    topics = topics_of(settings)
    try:
        return beside(bus, topics, incident, partial(requests_on, bus, topics), now)
    except BusError as error:
        click.secho(f"Cannot read requests: {error}", fg="yellow", err=True)
        return None


def _silent(settings: Settings, bus: Bus, shown: Sequence[Incident], now: float) -> Mapping[str, float]:
    """Return the silent hosts of open incidents; none if their frames cannot be read."""
    try:
        return silent_hosts(bus, topics_of(settings), shown, now)
    except BusError as error:
        click.secho(f"Cannot check for silent hosts: {error}", fg="yellow", err=True)
        return {}


def _write(lines: Iterable[Text]) -> None:
    write(lines, console_of(sys.stdout))


def _listing(
    settings: Settings,
    shown: Sequence[Incident],
    past: Past,
    silent: Mapping[str, float],
    now: float,
    *,
    since_s: float,
    only_open: bool,
) -> Iterator[Text]:

    if shown:
        yield from table_lines(shown, silent, now)
        wanted = next((one for one in shown if one.change != "closed"), shown[0])
        following = f"`{to_type(settings, 'incidents', wanted.id[:SHORT_ID])}` for the records of each operator"
    else:
        yield Text(f"No incident {'is open' if only_open else f'was open in the last {readable_duration(since_s)}'}.")
        following = f"`{to_type(settings, 'why')}` for what is unusual now"
    if not math.isnan(past.begins_ts):
        yield Text(f"What opened before {moment(past.begins_ts)} and has not changed since is not among them.", "dim")
    yield Text()
    yield Text(f"Next: {following}")


def _write_one(
    settings: Settings,
    incident: Incident,
    diagnoses: list[Diagnosis],
    other: Beside | None,
    silent: Mapping[str, float],
    *,
    now: float,
) -> None:

    console = console_of(sys.stdout)
    write(incident_lines(incident, page_of(console), silent, now), console)
    if other is not None:
        write(beside_lines(other), console)
    write_doing(settings, diagnoses, incident.opened_ts, blamed_rows(incident))
    following, others = [], ["incidents"]
    onset = math.ceil(incident.opened_ts)  # a moment before its frame would rank the frame before it
    if incident.merged_into:
        going_on = to_type(settings, "incidents", incident.merged_into[:SHORT_ID])
        following.append(f"`{going_on}`, into which it was merged")
    if incident.keyed_by == "host":
        ask = ["why", "--host", incident.key]
        began = to_type(settings, *ask, "--at", str(onset))
        following.append(f"`{began}` for the culprits at its onset")
        if incident.change != "closed":
            following.append(f"`{to_type(settings, *ask)}` for now")
    if incident.keyed_by == "application":
        following.append(f"`{to_type(settings, 'models', incident.key)}` for what explains its performance")
        if incident.blame is not None:  # its name is that of the host
            ask = ["why", "--host", incident.blame.name, "--at", str(onset)]
            following.append(f"`{to_type(settings, *ask)}` for the top consumers there")
    if incident.keyed_by == "pool":
        began = to_type(settings, "pools", incident.key, "--at", str(onset))
        following.append(f"`{to_type(settings, 'pools', incident.key)}` for the outliers in the pool now")
        following.append(f"`{began}` for its onset")
    if incident.keyed_by == "service":
        began = to_type(settings, "requests", incident.key, "--at", str(onset))
        following.append(f"`{to_type(settings, 'requests', incident.key)}` for the outlying requests now")
        following.append(f"`{began}` for its onset")
    click.echo(f"\nNext: {'; '.join(following or [f'`{to_type(settings, *others)}` for the others'])}")
    if url := page_url(settings, "/incidents", id=incident.id):
        click.echo(f"Page: {url}")
