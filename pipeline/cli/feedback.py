"""`laggard feedback`: the feedback of people on incidents, which marks them as usual or expected."""

from __future__ import annotations

import json
import math
import sys
import time
from typing import TYPE_CHECKING

import click

from laggard.pipeline.alarms.text import feedback_sentence
from laggard.pipeline.alarms.tolerance import LONGEST_S, of_incident, of_names, withdrawal
from laggard.pipeline.cli.exits import NO_DATA, USAGE, CommandError
from laggard.pipeline.cli.groups import ShowGroup
from laggard.pipeline.cli.incidents import not_one
from laggard.pipeline.cli.opening import existing_bus, topics_of
from laggard.pipeline.cli.options import json_lines_option, json_option, to_type, with_settings
from laggard.pipeline.cli.pages import console_of, write
from laggard.pipeline.cli.times import UNTIL_FORMS, parse_until
from laggard.pipeline.core.bus import Outgoing
from laggard.pipeline.core.records import RecordError, encode
from laggard.pipeline.core.records.feedback import plain_feedback
from laggard.pipeline.core.topics import TOPIC_OF
from laggard.pipeline.explaining.explain import printable
from laggard.pipeline.history.report import moment
from laggard.pipeline.methods.incidents.queries import SHORT_ID, past_feedback, past_incidents
from laggard.pipeline.settings.general import GeneralSettings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.text import Text

    from laggard.pipeline.core.bus import Bus
    from laggard.pipeline.core.records.feedback import Feedback, Says
    from laggard.pipeline.core.records.outputs import Incident
    from laggard.pipeline.methods.incidents.queries import PastFeedback
    from laggard.pipeline.settings import Settings


@click.group(
    cls=ShowGroup,
    context_settings={"help_option_names": ["-h", "--help"], "ignore_unknown_options": True},
    options_metavar="",
    subcommand_metavar="[COMMAND] [OPTIONS]",
)
def feedback() -> None:
    """List the feedback on incidents. `usual` marks one as usual, `expected` as expected for a while.

    A usual deviation is reported again only above 1.5 times its size, an expected one only after its time. Both hold
    for 30 days at most, and can be withdrawn. `laggard feedback show --help` lists the options of the list.
    """


@feedback.command(short_help="List the feedback of the last 30 days, the newest first.")
@with_settings
@click.option("--host", help="Show only this host, application, pool or service.  [default: all]")
@json_lines_option
def show(settings: Settings, *, host: str | None, as_json: bool) -> None:
    """List the feedback of the last 30 days, and whether it holds.

    --json prints the feedback as it was given, and whether it `holds`. Its subject is `keyed_by` and `key`;
    deploy/docs/reference/records.md explains the other fields at `feedback`.
    """
    now = time.time()
    with existing_bus(settings) as bus:
        found = past_feedback(bus, topics_of(settings), now - LONGEST_S, key=host)
    if as_json:
        for each in found:
            click.echo(json.dumps(plain_feedback(each.feedback) | {"holds": each.holds(now)}))
    else:
        _write(_lines(settings, found, now))


@feedback.command(short_help="Mark an incident as usual: not reported again at its size.")
@with_settings
@click.argument("incident")
@click.option("--note", default="", help="The reason, for people.")
@json_option
def usual(settings: Settings, *, incident: str, note: str, as_json: bool) -> None:
    """Mark INCIDENT (its id, or a prefix of it) as usual: the deviations in it are no incident.

    If it is open, it is closed. It is reported again only if it is more than 1.5 times as large. The metric
    `laggard_incidents_dismissed_total` counts it.
    """
    _record(settings, incident, "usual", math.nan, note, as_json=as_json)


@feedback.command(short_help="Mark an incident, or anything on a host, as expected.")
@with_settings
@click.argument("incident", default="")
@click.option("--until", required=True, metavar="TIME", help=f"The end, at most 30 days from now: {UNTIL_FORMS}.")
@click.option("--host", help="Without INCIDENT, the host.  [default: this one]")
@click.option("--name", "names", multiple=True, help="Without INCIDENT, only this program; repeatable.  [default: all]")
@click.option("--note", default="", help="The reason, for people.")
@json_option
def expected(
    settings: Settings,
    *,
    incident: str,
    until: str,
    host: str | None,
    names: Sequence[str],
    note: str,
    as_json: bool,
) -> None:
    """Mark INCIDENT as expected until a time; without INCIDENT, anything on a host, as in a load test."""
    now = time.time()
    try:
        until_ts = parse_until(until, now)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--until") from None
    if incident:
        if host is not None or names:
            raise click.UsageError("INCIDENT and --host or --name exclude each other")
        _record(settings, incident, "expected", until_ts, note, as_json=as_json)
        return

    with existing_bus(settings) as bus:
        entry = of_names("host", host or settings[GeneralSettings].host, names, now, until_ts=until_ts, note=note)
        _publish(settings, bus, entry, as_json=as_json)


@feedback.command(short_help="Withdraw feedback.")
@with_settings
@click.argument("identity", metavar="ID")
@click.option("--note", default="", help="The reason, for people.")
@json_option
def withdraw(settings: Settings, *, identity: str, note: str, as_json: bool) -> None:
    """Withdraw the feedback with this ID, or prefix of an id; `laggard feedback` lists them."""
    now = time.time()
    with existing_bus(settings) as bus:
        found = [
            each.feedback
            for each in past_feedback(bus, topics_of(settings), now - LONGEST_S)
            if each.feedback.id.startswith(identity.lower()) and math.isnan(each.withdrawn_ts)
        ]
        if len(found) != 1:
            subject = "more than one entry has" if found else "no entry has"
            listing = to_type(settings, "feedback")
            raise CommandError(f"{subject} an id that begins with {identity}; `{listing}` lists all feedback", NO_DATA)
        _publish(settings, bus, withdrawal(found[0], now, note), as_json=as_json)


def _record(settings: Settings, identity: str, says: Says, until_ts: float, note: str, *, as_json: bool) -> None:
    with existing_bus(settings) as bus:
        found: Sequence[Incident] = past_incidents(
            bus, topics_of(settings), -math.inf, identity=identity.lower()
        ).incidents
        if len(found) != 1:
            raise CommandError(not_one(settings, identity, found), NO_DATA)
        entry = of_incident(found[0], says, time.time(), until_ts=until_ts, note=note)
        _publish(settings, bus, entry, as_json=as_json)


def _publish(settings: Settings, bus: Bus, entry: Feedback, *, as_json: bool) -> None:
    try:
        value = encode(entry)
    except RecordError as error:
        raise CommandError(str(error), USAGE) from None
    bus.append([Outgoing(topics_of(settings).name(TOPIC_OF[entry.keyed_by]), entry.key, value, entry.ts)])
    if as_json:
        click.echo(json.dumps(plain_feedback(entry)))
        return
    click.echo(f"On {entry.key}: {feedback_sentence(entry)}")
    following = f"`{to_type(settings, 'feedback')}` lists it"
    if entry.says != "withdrawn":
        following += f"; `{to_type(settings, 'feedback', 'withdraw', entry.id[:SHORT_ID])}` takes it back"
    click.echo(f"Next: {following}")


def _lines(settings: Settings, entries: Sequence[PastFeedback], now: float) -> Iterator[Text]:
    from rich.text import Text  # noqa: PLC0415

    for each in entries:
        state = "holds" if each.holds(now) else "is over" if math.isnan(each.withdrawn_ts) else "withdrawn"
        prefix = (
            f"{each.feedback.id[:SHORT_ID]}  {moment(each.feedback.ts)}  {printable(each.feedback.key)}  {state:9}  "
        )
        yield Text(prefix + feedback_sentence(each.feedback), "" if state == "holds" else "dim")
    if not entries:
        listing = to_type(settings, "incidents")
        yield Text(f"There is no feedback. `{listing}` lists incidents to give it on.")


def _write(lines: Iterator[Text]) -> None:
    write(lines, console_of(sys.stdout))
