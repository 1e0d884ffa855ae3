"""`laggard grafana`: dashboards, alert rules and annotations in a Grafana, by its HTTP API."""

from __future__ import annotations

import functools
import json
import logging
import sys
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any, Concatenate, Final, NamedTuple, ParamSpec, TypeVar

import click

from laggard.pipeline.cli.exits import FAILED, UNAVAILABLE, CommandError
from laggard.pipeline.cli.options import duration_option, json_lines_option, json_option, with_settings
from laggard.pipeline.cli.part import handle_signals
from laggard.pipeline.cli.prompting import ask_to_go_on, check_yes
from laggard.pipeline.core.extras import installing
from laggard.pipeline.grafana.definitions import DefinitionError, read_definitions
from laggard.pipeline.grafana.errors import GrafanaError, GrafanaUnavailable
from laggard.pipeline.grafana.publish import publish as bring
from laggard.pipeline.grafana.publish import removable
from laggard.pipeline.grafana.publish import remove as take
from laggard.pipeline.grafana.settings import GrafanaSettings
from laggard.pipeline.grafana.standing import survey
from laggard.pipeline.grafana.surroundings import (
    NoDataSourceError,
    find_data_source,
    hints,
    lacking,
    read_contact_points,
    scraped,
)
from laggard.pipeline.investigator.settings import ServeSettings
from laggard.pipeline.settings.kinds import duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from laggard.pipeline.grafana.client import Grafana
    from laggard.pipeline.grafana.publish import Done
    from laggard.pipeline.grafana.standing import Thing
    from laggard.pipeline.grafana.surroundings import DataSource
    from laggard.pipeline.grafana.version import Version
    from laggard.pipeline.settings import Settings

P = ParamSpec("P")
R = TypeVar("R")

STEP_S: Final = 1.0
"""The longest wait of `annotate` for records in one step, in seconds."""

force_option = click.option("--force", is_flag=True, help="Include things that others have changed.")
alerts_option = click.option("--alerts/--no-alerts", default=True, show_default=True, help="Include the alert rules.")


def with_grafana(
    command: Callable[Concatenate[Settings, Grafana, P], R],
) -> Callable[Concatenate[Settings, P], R]:
    """Pass the configured Grafana to a command, and raise its errors as `CommandError`."""

    @functools.wraps(command)
    def connect(settings: Settings, /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            from laggard.pipeline.grafana.client import grafana_of  # noqa: PLC0415 - an extra
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in {"grafana_api", "requests"}:
                raise
            raise CommandError(
                f"`laggard grafana` needs grafana-api, which is not installed; {installing('grafana')}"
            ) from None

        with grafana_of(settings) as grafana:
            try:
                return command(settings, grafana, *args, **kwargs)
            except GrafanaUnavailable as error:
                raise CommandError(str(error), UNAVAILABLE) from None
            except (GrafanaError, NoDataSourceError, DefinitionError) as error:
                raise CommandError(str(error), FAILED) from None

    return connect


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def grafana() -> None:
    """Publish laggard's dashboards, alert rules and annotations to Grafana 10 or newer.

    The settings grafana.url and grafana.token or grafana.token_file give its address and access. Dashboards and alert
    rules go to the folder laggard. Things that others have changed are left alone.

    Grafana can also read dashboards and alert rules from files: see deploy/grafana/README.md.
    """


class Seen(NamedTuple):
    """The state at the start of a command."""

    version: Version
    data_source: DataSource | None
    things: list[Thing]


def _state(settings: Settings, grafana: Grafana, *, alerts: bool) -> Seen:
    """Return the state of everything. Without alert rules no data source is needed."""
    version = grafana.version()
    try:
        data_source = find_data_source(grafana, settings[GrafanaSettings].data_source)
    except NoDataSourceError:
        if alerts:
            raise
        data_source = None
    definitions = read_definitions(
        data_source.uid if alerts and data_source else None,
        keeps_firing=version.keeps_firing,
        page=settings[ServeSettings].url.rstrip("/"),
    )
    return Seen(version, data_source, survey(grafana, definitions))


@grafana.command(short_help="Publish dashboards and alert rules.")
@with_settings
@with_grafana
@alerts_option
@force_option
@json_option
def publish(settings: Settings, grafana: Grafana, *, alerts: bool, force: bool, as_json: bool) -> int:
    """Publish the folder, the dashboards and the alert rules to Grafana. A second run changes nothing.

    If the setting serve.url gives the address of laggard's own page, dashboards and alerts link to it.

    If Prometheus evaluates the rules of deploy/prometheus, --no-alerts avoids duplicate alerts from Grafana.

    Things that others have changed in any way since laggard wrote them are left alone: the exit code is then 1.
    `laggard grafana diff` shows them, --force overwrites them. Alert rules can be edited in Grafana's pages.
    """
    seen = _state(settings, grafana, alerts=alerts)
    done = _follow(bring(grafana, seen.things, force=force), as_json=as_json)
    advice = [*_data_source_problems(grafana, seen.data_source), *_hints(grafana, seen.version, alerts=alerts)]
    return _end(grafana, done, advice, as_json=as_json)


@grafana.command(short_help="Remove what laggard has created.")
@with_settings
@with_grafana
@alerts_option
@force_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def remove(settings: Settings, grafana: Grafana, *, alerts: bool, force: bool, yes: bool, as_json: bool) -> int:
    """Remove the dashboards and alert rules that laggard has created, and its folder if nothing else is in it.

    Those that others have changed stay without --force. Things that others have put into the folder always stay.
    Annotations stay.
    """
    check_yes(as_json=as_json, yes=yes)
    things = _standing_for_removal(settings, grafana, alerts=alerts)
    going = removable(things, force=force)
    if going and not yes:
        click.echo(f"To be removed from Grafana at {grafana.url}:")
        click.echo("\n".join(f"  {thing.name}" for thing in going))
        ask_to_go_on()
        # They may have changed before the answer.
        things = _standing_for_removal(settings, grafana, alerts=alerts)
    return _end(grafana, _follow(take(grafana, things, force=force), as_json=as_json), [], as_json=as_json)


def _standing_for_removal(settings: Settings, grafana: Grafana, *, alerts: bool) -> list[Thing]:
    """Return the state of everything. The rules can be removed even if the data source no longer exists."""
    version = grafana.version()
    data_source = settings[GrafanaSettings].data_source or "unknown"
    page = settings[ServeSettings].url.rstrip("/")
    return survey(
        grafana, read_definitions(data_source if alerts else None, keeps_firing=version.keeps_firing, page=page)
    )


@grafana.command(short_help="Show what exists, is missing or differs, and the rights of the token.")
@with_settings
@with_grafana
@alerts_option
@json_option
def check(settings: Settings, grafana: Grafana, *, alerts: bool, as_json: bool) -> int:
    """Check what exists, is missing or differs, whether the data source sees laggard, and the rights of the token.

    It changes nothing. The exit code is 1 if something is not as expected.
    """
    grafana.version()  # first of all, it reports an address that is no Grafana
    permissions = grafana.permissions()
    missing: list[str] = []
    if permissions is not None:
        missing = lacking(permissions, alerts=alerts, data_source=settings[GrafanaSettings].data_source)
    try:
        seen = _state(settings, grafana, alerts=alerts)
    except GrafanaError as error:
        if error.status != 403 or not missing:
            raise
        raise GrafanaError(f"{error} The token may not: {', '.join(missing)}", error.status) from None
    problems = _data_source_problems(grafana, seen.data_source)
    hints = _hints(grafana, seen.version, alerts=alerts)
    wrong = [thing for thing in seen.things if thing.state != "current"]
    if as_json:
        found = {
            "url": grafana.url,
            "version": seen.version.text or None,
            "data_source": seen.data_source.uid if seen.data_source else None,
            "problems": problems,
            "lacking": None if permissions is None else missing,
            "things": [thing.to_json() for thing in seen.things],
            "hints": hints,
        }
        click.echo(json.dumps(found))
    else:
        click.echo(f"Grafana {seen.version.text or '(version hidden)'} at {grafana.url}")
        if seen.data_source:
            click.echo(f"Data source {seen.data_source.label}: {'; '.join(problems) or 'sees laggard'}")
        _table((thing.name, thing.state_text) for thing in seen.things)
        if permissions is None:
            click.echo("Grafana does not report the token's permissions.")
        elif missing:
            click.echo(f"The token may not: {', '.join(missing)}")
        else:
            click.echo("The token has all the rights that laggard needs.")
        for hint in hints:
            click.echo(f"Hint: {hint}.")
    return FAILED if wrong or problems or missing else 0


@grafana.command(short_help="Show the differences from what laggard would write.")
@with_settings
@with_grafana
@alerts_option
@json_option
def diff(settings: Settings, grafana: Grafana, *, alerts: bool, as_json: bool) -> int:
    """Show the differences between Grafana and what laggard would write, as a unified diff of sorted JSON.

    It changes nothing. The exit code is 1 if something differs, as with diff.
    """
    things = _state(settings, grafana, alerts=alerts).things
    differing = [thing for thing in things if thing.state != "current"]
    if as_json:
        entries = [{**thing.to_json(), "diff": thing.diff()} for thing in differing]
        click.echo(json.dumps({"url": grafana.url, "things": entries}))
        return FAILED if differing else 0
    for thing in differing:
        click.secho(f"{thing.name}: {thing.state_text}", bold=True)
        for line in thing.diff():
            click.secho(line, fg={"+": "green", "-": "red", "@": "cyan"}.get(line[:1]))
    return FAILED if differing else 0


def _since(context: click.Context, parameter: click.Parameter, value: str) -> float:  # noqa: ARG001
    try:
        return duration(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r}; expected {error}") from None


@grafana.command(short_help="Write incidents and marks as annotations.")
@with_settings
@with_grafana
@click.option(
    "--since",
    "since_s",
    default="1d",
    show_default=True,
    metavar="DURATION",
    callback=_since,
    help="At the first start, include incidents and marks up to this age.",
)
@json_lines_option
@duration_option
def annotate(settings: Settings, grafana: Grafana, *, since_s: float, as_json: bool, duration_s: float | None) -> None:
    """Follow the topic of anomalies, and write an annotation for each incident and each mark, until ^C.

    Their tags are laggard, incident or mark, the host and the operators. An open incident also has the tag open; when
    it closes, its line becomes a region. Annotations that people have deleted are not restored, nor texts that they
    have edited.

    After a restart, or on several machines, it continues where it was and writes nothing twice.
    """
    stop = threading.Event()
    handle_signals(stop)
    from laggard.pipeline.cli.opening import existing_bus, topics_of  # noqa: PLC0415
    from laggard.pipeline.grafana.annotate import Annotator  # noqa: PLC0415
    from laggard.pipeline.history.report import moment  # noqa: PLC0415

    def report(deed: str, key: str, ts: float) -> None:
        if as_json:
            click.echo(json.dumps({"done": deed, "key": key, "ts": ts}))
        else:
            click.echo(f"{moment(ts)}  {key}  {DEEDS[deed]}")
        sys.stdout.flush()

    logging.basicConfig(format="laggard: %(message)s", level=logging.WARNING, stream=sys.stderr)
    grafana.version()
    with existing_bus(settings) as bus:
        if duration_s is not None:
            timer = threading.Timer(duration_s, stop.set)
            timer.daemon = True
            timer.start()
        annotator = Annotator(bus, topics_of(settings), grafana, since_s=since_s, sleep=stop.wait, report=report)
        annotator.begin()
        try:
            while not stop.is_set():
                annotator.step(STEP_S)
        finally:
            annotator.close()


DEEDS: Final = {
    "written": "annotated",
    "changed": "says more now",
    "ended": "has ended",
    "there": "is annotated already",
    "deleted": "stays deleted",
    "endless": "stays without an end: an older laggard wrote it, and its end is unknown",
}


def _data_source_problems(grafana: Grafana, data_source: DataSource | None) -> list[str]:
    """Return the problems that keep panels and alerts empty."""
    if data_source is None:
        return ["Grafana has no data source for Prometheus"]
    try:
        problem = scraped(grafana, data_source).problem
    except GrafanaUnavailable:
        raise
    except GrafanaError as error:
        problem = str(error)
    return [problem] if problem else []


def _hints(grafana: Grafana, version: Version, *, alerts: bool) -> list[str]:

    return hints(version, read_contact_points(grafana) if alerts else None)


def _follow(steps: Iterable[Done], *, as_json: bool) -> list[Done]:
    """Print each thing when it is done, and return all of them."""
    done = []
    for one in steps:
        done.append(one)
        if not as_json and one.deed != "unchanged":
            why = f": {one.why}" if one.why else ""
            click.echo(f"{one.deed if one.deed != 'left' else 'left alone':12}{one.thing.name}{why}")
    return done


def _end(grafana: Grafana, done: Sequence[Done], advice: Sequence[str], *, as_json: bool) -> int:
    """Print the summary, and return the exit code: 1 if something was left alone."""
    left = [one for one in done if one.deed == "left"]
    if as_json:
        found: dict[str, Any] = {"url": grafana.url, "things": [one.to_json() for one in done], "hints": list(advice)}
        click.echo(json.dumps(found))
        return FAILED if left else 0
    for each in advice:
        click.echo(f"Hint: {each}.")
    if any(one.thing.state == "changed" for one in left):
        click.echo("`laggard grafana diff` shows the changes of others; --force overwrites them.")
    counts = Counter("left alone" if one.deed == "left" else one.deed for one in done)
    summed = ", ".join(f"{count} {deed}" for deed, count in sorted(counts.items())) or "nothing is there"
    click.echo(f"Grafana at {grafana.url}: {summed}.")
    return FAILED if left else 0


def _table(rows: Iterable[tuple[str, str]]) -> None:
    rows = list(rows)
    width = max((len(name) for name, _ in rows), default=0)
    for name, text in rows:
        click.echo(f"  {name:{width}}  {text}")
