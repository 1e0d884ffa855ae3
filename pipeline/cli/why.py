"""`laggard why`: what is slow, and the culprits, now, at any moment of the history, or at a mark."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING, Final

import click

from laggard.pipeline.alarms.status import ALARMED
from laggard.pipeline.alarms.text import headline
from laggard.pipeline.cli.exits import NO_DATA, CommandError
from laggard.pipeline.cli.opening import existing_bus, topics_of
from laggard.pipeline.cli.options import (
    features_option,
    json_lines_option,
    past_moment,
    rows_option,
    setting_flag,
    to_type,
    with_settings,
)
from laggard.pipeline.cli.page import page_url
from laggard.pipeline.cli.pages import console_of, page_lines, page_of, write
from laggard.pipeline.cli.times import FORMS
from laggard.pipeline.core.bus import BusError
from laggard.pipeline.core.claims import holder_of
from laggard.pipeline.core.records.diagnosis_json import diagnosis_object
from laggard.pipeline.core.records.outputs import RankingOutput
from laggard.pipeline.explaining.explain import pid_of, printable
from laggard.pipeline.explaining.names import first_of
from laggard.pipeline.explaining.units import readable_duration
from laggard.pipeline.history.hosts import NothingRecordedError, UnknownHostError
from laggard.pipeline.history.report import moment, plain_findings, subject_of, telling
from laggard.pipeline.history.why import History, OutsideError
from laggard.pipeline.methods.diagnoses.page import brief_lines, doing_lines, standing
from laggard.pipeline.methods.incidents.diagnosed import Recorded, concerning
from laggard.pipeline.methods.incidents.queries import SHORT_ID, past_incidents
from laggard.pipeline.settings.general import BusSettings, GeneralSettings
from laggard.pipeline.wiring import asked

if TYPE_CHECKING:
    from collections.abc import Collection

    from laggard.operators.ranking import Ranking
    from laggard.pipeline.alarms.status import Status
    from laggard.pipeline.core.bus import Bus
    from laggard.pipeline.core.records.diagnosis import Diagnosis
    from laggard.pipeline.core.records.outputs import Incident
    from laggard.pipeline.history.answers import Answer
    from laggard.pipeline.history.marks import Marked
    from laggard.pipeline.settings import Settings

LAST: Final = "last"

LISTED: Final = 10
"""The most hosts that an error names."""

REPORTED: Final = 3
"""The most incidents that are shown."""

SHOWN_DIAGNOSES: Final = 2
"""The most processes whose diagnoses are shown; the JSON has all of them."""


@click.command()
@with_settings
@click.option("--at", metavar="TIME", help=f"The moment: {FORMS}.  [default: the newest frame]")
@click.option("--host", help="The host.  [default: this one]")
@click.option("--mark", "wanted", metavar="last|ID", help="The moment of a mark; `laggard why --marks` lists them.")
@click.option("--marks", "listing", is_flag=True, help="List the marks instead.")
@rows_option
@features_option
@click.option("--all", "every", is_flag=True, help="Show rows with a score below 0.1, too.")
@json_lines_option
@setting_flag(
    "--operator", GeneralSettings.operators, "NAME", "Ask this operator.  [default: the first of setting operators]"
)
def why(
    settings: Settings,
    *,
    at: str | None,
    host: str | None,
    wanted: str | None,
    listing: bool,
    rows: int,
    features: int,
    every: bool,
    as_json: bool,
) -> None:
    """Show what is slow and the culprits, now or at any moment of the history.

    It names the processes that use more than their baseline, those that only wait for others, and the host if it is
    slow.

    --json prints a record of the kind `ranking`, with the `status` of the host and the recorded `diagnoses` of its
    processes at that time; deploy/docs/reference/anomalies.md explains the fields. The exit code is 0 whether
    or not there is an outlier, and 3 if nothing is recorded of the host or the moment; `laggard --help` lists all exit
    codes.
    """
    if sum((at is not None, wanted is not None, listing)) > 1:
        raise click.UsageError("--at, --mark and --marks exclude each other")
    now = time.time()
    ts = past_moment(at, now)

    with existing_bus(settings) as bus:
        history = History(bus, topics_of(settings), asked(settings))
        if listing:
            _list_marks(settings, history.marks(host), as_json=as_json)
            return
        mark = None if wanted is None else _find_mark(settings, history.marks(host), wanted)
        if mark is not None:
            host, ts = mark.host, mark.frame_ts
        host = choose_host(settings, history, host)
        try:
            asking = os.getpid() if ts is None and host == settings[GeneralSettings].host else None
            answer = history.ask(host, ts, rows, features, asking=asking)
        except OutsideError as error:
            raise CommandError(_outside(error), NO_DATA) from None
        silent_s = answer.silent_s(now) if ts is None else 0.0
        if silent_s:
            click.secho(_silent(settings, answer, silent_s), fg="yellow", err=as_json)
        diagnoses = _find_diagnoses(settings, bus, answer)
        reported = _reported(settings, bus, answer)
        if as_json:
            _write_json(answer, mark, diagnoses, reported)
        else:
            here = ts is None and not silent_s and host == settings[GeneralSettings].host
            shown = answer.ranking if every else telling(answer)
            _write_page(history, answer, mark, now, reported, shown=shown, here=here)
            blamed = [row.row for row in answer.verdict.culprits]
            write_doing(settings, diagnoses, answer.frame.ts, blamed, [row.row for row in shown.rows])
            click.echo(f"Next: {_next(settings, answer, here=here)}")
            if url := page_url(settings, "/", host=answer.host, at=answer.frame.ts):
                click.echo(f"Page: {url}")


def choose_host(settings: Settings, history: History, wanted: str | None) -> str:
    """Return the host to show. Raises `CommandError` that names the recorded hosts, if any."""
    try:
        return history.hosts.choose(wanted, settings[GeneralSettings].host)
    except NothingRecordedError:
        start = to_type(settings, *starting(settings))
        raise CommandError(f"there are no records yet; start `{start}`, and ask again in a minute", NO_DATA) from None
    except UnknownHostError as error:
        known = first_of(error.hosts, LISTED)
        ask = "" if wanted else "; name one with --host"
        raise CommandError(f"there are no records of host {error.host}; recorded: {known}{ask}", NO_DATA) from None


def starting(settings: Settings) -> list[str]:
    """Return the words of the command that starts an agent."""
    return ["agent"] if "://" in settings[BusSettings].location else ["up"]


def _outside(error: OutsideError) -> str:
    if error.first != error.first:
        return f"there are no process counters of {error.host} yet; ask again in a minute"
    reach = f"its history goes from {moment(error.first)} to {moment(error.last)}"
    if error.first <= error.ts <= error.last:
        reach += ", with a gap there"
    return f"there are no records of {error.host} at {moment(error.ts)}; {reach}"


def _silent(settings: Settings, answer: Answer, silent_s: float) -> str:
    last = f"this is about its last frame, {readable_duration(silent_s)} ago"
    there = ""
    if answer.host != settings[GeneralSettings].host:
        there = " there"
    elif _runs_here(settings):
        examine = to_type(settings, "doctor")
        return (
            f"The agent of {answer.host} runs, but has published nothing newer; {last}. If this persists: `{examine}`"
        )
    start = to_type(settings, *starting(settings))
    return f"The agent of {answer.host} is not running now; {last}. Start it{there}: `{start}`"


def _runs_here(settings: Settings) -> bool:
    """Return whether an agent runs on this machine and bus; false if this user may not see that."""
    try:
        return holder_of(settings[BusSettings].location, settings[GeneralSettings].state, "agent") is not None
    except OSError:
        return False


def _find_mark(settings: Settings, marks: list[Marked], wanted: str) -> Marked:
    if not marks:
        set_one = to_type(settings, "mark", "what is slow")
        raise CommandError(f"there are no marks; when it is slow, run `{set_one}`", NO_DATA)
    if wanted == LAST:
        return marks[0]
    found = [mark for mark in marks if mark.id.startswith(wanted.lower())]
    if len(found) != 1:
        subject = "more than one mark has" if found else "no mark has"
        raise CommandError(f"{subject} the id {wanted}; `{to_type(settings, 'why', '--marks')}` lists them", NO_DATA)
    return found[0]


def _list_marks(settings: Settings, marks: list[Marked], *, as_json: bool) -> None:
    for mark in marks:
        if as_json:
            click.echo(json.dumps({"id": mark.id, "ts": mark.ts, "host": mark.host, "mark": mark.note}))
        else:
            click.echo(f"{mark.id}  {moment(mark.ts)}  {printable(mark.host)}  {printable(mark.note)}".rstrip())
    if not as_json:
        one = to_type(settings, "why", "--mark", marks[0].id) if marks else to_type(settings, "mark", "what is slow")
        click.echo(f"\nNext: `{one}`" if marks else f"There are no marks; when it is slow, run `{one}`")


def _find_diagnoses(settings: Settings, bus: Bus, answer: Answer) -> list[Diagnosis]:
    """Return the recorded diagnoses of the host around the moment; see `concerning`."""
    blamed = [row.row for row in answer.verdict.culprits]
    try:
        return concerning(Recorded(bus, topics_of(settings), answer.host), answer.frame.ts, answer.began, blamed)
    except BusError as error:
        # Users who may not read them, or whose brokers lack their topic, get the rest of the answer.
        click.secho(f"Cannot read diagnoses: {error}", fg="yellow", err=True)
        return []


def _status(answer: Answer, reported: list[Incident]) -> Status:
    return answer.status({seen.operator for seen in each.evidence} for each in reported)


def _write_json(answer: Answer, mark: Marked | None, diagnoses: list[Diagnosis], reported: list[Incident]) -> None:
    ts, note = (answer.ts, "") if mark is None else (mark.ts, mark.note)
    status = _status(answer, reported)
    sentence = " ".join(plain_findings(answer, scored=status in ALARMED))
    written = RankingOutput.of(ts, answer.host, note, answer.ranking, sentence).to_json()
    written["status"] = status
    if diagnoses:
        written["diagnoses"] = [diagnosis_object(each) for each in diagnoses]
    click.echo(json.dumps(written, separators=(",", ":"), allow_nan=False))


def _reported(settings: Settings, bus: Bus, answer: Answer) -> list[Incident]:
    """Return the incidents of the host that were open at the moment; none if they cannot be read."""
    ts = answer.frame.ts
    try:
        past = past_incidents(bus, topics_of(settings), ts, key=answer.host)
    except BusError as error:
        click.secho(f"Cannot check for open incidents: {error}", fg="yellow", err=True)
        return []
    of_host = (each for each in past.incidents if each.keyed_by == "host")
    return [each for each in of_host if each.opened_ts <= ts and not each.merged_into]


def _incident_line(incident: Incident) -> str:
    return f"Incident {incident.id[:SHORT_ID]}, since {moment(incident.opened_ts)}: {headline(incident)}"


def _write_page(
    history: History,
    answer: Answer,
    mark: Marked | None,
    now: float,
    reported: list[Incident],
    *,
    shown: Ranking,
    here: bool,
) -> None:

    console = console_of(sys.stdout)
    about = subject_of(answer, shown)
    series = None if about is None else history.series(answer, about.row, about.feature.feature, about.scope)
    frame_ts = answer.frame.ts
    status = _status(answer, reported)
    header = (
        f"{printable(answer.host)}: {status}, at {moment(frame_ts)}, {readable_duration(max(now - frame_ts, 0.0))} ago"
    )
    if mark is not None:
        header += f": marked {printable(mark.note)}".rstrip()
    elif moment(answer.ts) != moment(frame_ts):
        header += f", the frame nearest to {moment(answer.ts)}"
    lines = [_incident_line(each) for each in reported[:REPORTED]]
    scored = status in ALARMED
    write(page_lines(answer, series, page_of(console), header, lines, shown=shown, here=here, scored=scored), console)
    if answer.since == answer.since:
        click.secho(
            f"The baseline was learned from {moment(answer.since)} on: the bus keeps no older state, and no older "
            "records.",
            dim=True,
        )


def write_doing(
    settings: Settings, doing: list[Diagnosis], ts: float, blamed: Collection[str], ranked: Collection[str] = ()
) -> None:
    """Write the diagnoses around a moment, each with the role of its process in the text above.

    Args:
        settings: the settings of the command.
        doing: the diagnoses.
        ts: the moment, seconds since the Unix epoch.
        blamed: the rows of the culprits.
        ranked: the rows of the ranking above; empty without a ranking.

    """
    if not doing:
        return

    console = console_of(sys.stdout)
    click.echo()
    write(doing_lines([each.row for each in doing], SHOWN_DIAGNOSES, blamed, ranked), console)
    for each in doing[:SHOWN_DIAGNOSES]:
        click.echo()
        write([standing(each.row, blamed, ranked), *brief_lines(each, page_of(console), ts)], console)
        elsewhere = [] if each.host == settings[GeneralSettings].host else ["--host", each.host]
        click.echo(f"All of it: `{to_type(settings, 'diagnose', '--id', each.id[:SHORT_ID], *elsewhere)}`")


def _next(settings: Settings, answer: Answer, *, here: bool) -> str:
    if not here:
        return f"`{to_type(settings, 'why')}` for now; `{to_type(settings, 'why', '--marks')}` for what was marked"
    suggestions = (
        f"`{to_type(settings, 'watch')}` to follow it live; `{to_type(settings, 'mark', 'what is slow')}` to note it"
    )
    pids = [pid for row in answer.verdict.culprits[:1] if (pid := pid_of(row.row)) is not None]
    return "".join(f"`{to_type(settings, 'diagnose', str(pid))}` for what it is doing; " for pid in pids) + suggestions
