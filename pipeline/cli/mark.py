"""`laggard mark`: a person reports that it is slow now (S0's button, with the note that its section 6 requests)."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import click

from laggard.pipeline.cli.exits import USAGE, CommandError
from laggard.pipeline.cli.opening import existing_bus, topics_of
from laggard.pipeline.cli.options import to_type, with_settings
from laggard.pipeline.cli.times import FORMS, parse_shown
from laggard.pipeline.core.bus import Outgoing
from laggard.pipeline.core.records import Mark, RecordError, encode
from laggard.pipeline.core.topics import COUNTERS
from laggard.pipeline.explaining.explain import printable
from laggard.pipeline.history.marks import mark_id
from laggard.pipeline.history.why import History
from laggard.pipeline.settings.general import GeneralSettings
from laggard.pipeline.wiring import asked

if TYPE_CHECKING:
    from laggard.pipeline.settings import Settings


@click.command()
@with_settings
@click.argument("note", default="")
@click.option("--at", metavar="TIME", default="now", help=f"The moment: {FORMS}.  [default: now]")
@click.option("--host", help="The host.  [default: this one]")
@click.option("--json", "as_json", is_flag=True, help="Print the mark as one JSON object, for programs.")
def mark(settings: Settings, note: str, at: str, host: str | None, *, as_json: bool) -> None:
    """Mark a moment as slow, by default now, with a NOTE such as "checkout hangs"."""
    now = time.time()
    try:
        ts = parse_shown(at, now)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--at") from None
    if ts > now:
        raise CommandError(f"--at {at} is in the future; a mark is about the past", USAGE)

    host = host or settings[GeneralSettings].host
    topic = topics_of(settings).name(COUNTERS)
    try:
        value = encode(Mark(host, ts, note))
    except RecordError as error:
        raise CommandError(str(error), USAGE) from None
    with existing_bus(settings) as bus:
        history = History(bus, topics_of(settings), asked(settings))
        if not history.hosts.knows(host):
            hosts = history.hosts.all()
            known = f"; recorded: {', '.join(map(printable, hosts[:10]))}" if hosts else ""
            click.echo(f"laggard: there are no records of {host} yet{known}", err=True)
        bus.append([Outgoing(topic, host, value, ts)])
    if as_json:
        click.echo(json.dumps({"id": mark_id(host, ts, note), "ts": ts, "host": host, "mark": note}))
        return
    shown = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(ts))
    click.echo(f"Marked {shown} on {host}{': ' if note else ''}{note}")
    question = ["--mark", "last"] if at == "now" else ["--at", shown]
    click.echo(f"Next: `{to_type(settings, 'why', *question)}`")
