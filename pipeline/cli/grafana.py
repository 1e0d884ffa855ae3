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

from laggard.pipeline.cli.exits import FAILED, UNAVAILABLE, USAGE, CommandError
from laggard.pipeline.cli.options import duration_option, with_settings
from laggard.pipeline.cli.part import hear_signals
from laggard.pipeline.extras import installing
from laggard.pipeline.grafana.definitions import DefinitionError, read_definitions
from laggard.pipeline.grafana.errors import GrafanaError, GrafanaUnavailable
from laggard.pipeline.grafana.publish import publish as bring
from laggard.pipeline.grafana.publish import removable
from laggard.pipeline.grafana.publish import remove as take
from laggard.pipeline.grafana.settings import GrafanaSettings
from laggard.pipeline.grafana.standing import look
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
"""How long `annotate` waits for records at once."""

json_option = click.option("--json", "as_json", is_flag=True, help="One JSON object for a program to read.")
force_option = click.option("--force", is_flag=True, help="Also what somebody else has changed.")
alerts_option = click.option(
    "--alerts/--no-alerts", default=True, show_default=True, help="Whether alert rules are among it."
)


def with_grafana(
    command: Callable[Concatenate[Settings, Grafana, P], R],
) -> Callable[Concatenate[Settings, P], R]:
    """Give the command the Grafana that the settings name, and say its errors in a line."""

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
    """Publish laggard's dashboards, alert rules and annotations to a Grafana, 10 or newer.

    Where Grafana is, and as whom, the settings grafana.url and grafana.token or grafana.token_file say. All of it goes
    to the folder laggard. What somebody else has changed is left alone.

    Grafana can also read all of it from files: deploy/grafana/README.md says how.
    """


class Seen(NamedTuple):
    """What a command begins with."""

    version: Version
    data_source: DataSource | None
    things: list[Thing]


def _look(settings: Settings, grafana: Grafana, *, alerts: bool) -> Seen:
    """How everything stands. Without alert rules no data source is needed."""
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
    return Seen(version, data_source, look(grafana, definitions))


@grafana.command(short_help="Bring dashboards and alert rules to Grafana.")
@with_settings
@with_grafana
@alerts_option
@force_option
@json_option
def publish(settings: Settings, grafana: Grafana, *, alerts: bool, force: bool, as_json: bool) -> int:
    """Bring the folder, the dashboards and the alert rules to Grafana. Done again, it changes nothing.

    Where the setting serve.url says where laggard's own page is, dashboards and alerts get a link to it.

    Where Prometheus evaluates the rules of deploy/prometheus, --no-alerts keeps Grafana from telling the same twice.

    Left alone is what somebody else has changed since laggard wrote it, by whatever way; `laggard grafana diff` shows
    it, --force overwrites it. The exit code is then 1. Alert rules can be edited in Grafana's pages.
    """
    seen = _look(settings, grafana, alerts=alerts)
    done = _follow(bring(grafana, seen.things, force=force), as_json=as_json)
    told = [*_data_source_problems(grafana, seen.data_source), *_hints(grafana, seen.version, alerts=alerts)]
    return _end(grafana, done, told, as_json=as_json)


@grafana.command(short_help="Take away what laggard has made there.")
@with_settings
@with_grafana
@alerts_option
@force_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def remove(settings: Settings, grafana: Grafana, *, alerts: bool, force: bool, yes: bool, as_json: bool) -> int:
    """Take away the dashboards and alert rules that laggard has made, and the folder where nothing else is in it.

    What somebody else has changed stays, without --force; what others have put into the folder always does.
    Annotations stay.
    """
    if as_json and not yes:
        raise CommandError("--json asks nobody; expected --yes with it", USAGE)
    things = _standing_for_removal(settings, grafana, alerts=alerts)
    going = removable(things, force=force)
    if going and not yes:
        click.echo(f"From Grafana at {grafana.url} will go:")
        click.echo("\n".join(f"  {thing.name}" for thing in going))
        if not sys.stdin.isatty():
            raise CommandError("nobody can be asked here; expected --yes", USAGE)
        click.confirm("Go on?", abort=True)
        # Who knows what has happened while nobody answered.
        things = _standing_for_removal(settings, grafana, alerts=alerts)
    return _end(grafana, _follow(take(grafana, things, force=force), as_json=as_json), [], as_json=as_json)


def _standing_for_removal(settings: Settings, grafana: Grafana, *, alerts: bool) -> list[Thing]:
    """How everything stands. That there is no data source any more is no reason to keep the rules."""
    version = grafana.version()
    data_source = settings[GrafanaSettings].data_source or "unknown"
    page = settings[ServeSettings].url.rstrip("/")
    return look(
        grafana, read_definitions(data_source if alerts else None, keeps_firing=version.keeps_firing, page=page)
    )


@grafana.command(short_help="Say what is there, missing or different, and what the token may.")
@with_settings
@with_grafana
@alerts_option
@json_option
def check(settings: Settings, grafana: Grafana, *, alerts: bool, as_json: bool) -> int:
    """Say what is there, what is missing, what differs, whether the data source sees laggard, and what the token may.

    Changes nothing. The exit code is 1 when something is not as it should be.
    """
    grafana.version()  # so that what is no Grafana is said first
    permissions = grafana.permissions()
    missing: list[str] = []
    if permissions is not None:
        missing = lacking(permissions, alerts=alerts, data_source=settings[GrafanaSettings].data_source)
    try:
        seen = _look(settings, grafana, alerts=alerts)
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
        click.echo(f"Grafana {seen.version.text or '(it hides its version)'} at {grafana.url}")
        if seen.data_source:
            click.echo(f"Data source {seen.data_source.said}: {'; '.join(problems) or 'sees laggard'}")
        _table((thing.name, thing.said) for thing in seen.things)
        if permissions is None:
            click.echo("What the token may, Grafana does not say.")
        elif missing:
            click.echo(f"The token may not: {', '.join(missing)}")
        else:
            click.echo("The token has all the rights that laggard needs.")
        for hint in hints:
            click.echo(f"Hint: {hint}.")
    return FAILED if wrong or problems or missing else 0


@grafana.command(short_help="Show how Grafana differs from what laggard would write.")
@with_settings
@with_grafana
@alerts_option
@json_option
def diff(settings: Settings, grafana: Grafana, *, alerts: bool, as_json: bool) -> int:
    """Show how what is in Grafana differs from what laggard would write, as a unified diff of JSON in one order.

    Changes nothing. The exit code is 1 when something differs, as diff's.
    """
    things = _look(settings, grafana, alerts=alerts).things
    differing = [thing for thing in things if thing.state != "current"]
    if as_json:
        told = [{**thing.to_json(), "diff": thing.diff()} for thing in differing]
        click.echo(json.dumps({"url": grafana.url, "things": told}))
        return FAILED if differing else 0
    for thing in differing:
        click.secho(f"{thing.name}: {thing.said}", bold=True)
        for line in thing.diff():
            click.secho(line, fg={"+": "green", "-": "red", "@": "cyan"}.get(line[:1]))
    return FAILED if differing else 0


def _since(context: click.Context, parameter: click.Parameter, value: str) -> float:  # noqa: ARG001
    try:
        return duration(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r}; expected {error}") from None


@grafana.command(short_help="Keep incidents and marks as annotations in Grafana.")
@with_settings
@with_grafana
@click.option(
    "--since",
    "since_s",
    default="1d",
    show_default=True,
    metavar="DURATION",
    callback=_since,
    help="At its first start it begins with what is at most so old.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, for programs.")
@duration_option
def annotate(settings: Settings, grafana: Grafana, *, since_s: float, as_json: bool, duration_s: float | None) -> None:
    """Follow the topic of anomalies, and write an annotation for each incident and each mark, until ^C.

    Their tags are laggard, incident or mark, the host and the operators. An incident that is open also has the tag
    open; when it closes, its line becomes a region. What a person has deleted or written there stays so.

    Started again, or on several machines, it goes on where it was and writes nothing twice.
    """
    stop = threading.Event()
    hear_signals(stop)  # before numpy starts threads, which would not know of it
    from laggard.pipeline.cli.opening import existing_bus, topics_of  # noqa: PLC0415
    from laggard.pipeline.grafana.annotate import Annotator  # noqa: PLC0415
    from laggard.pipeline.history.report import moment  # noqa: PLC0415

    def tell(deed: str, key: str, ts: float) -> None:
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
        annotator = Annotator(bus, topics_of(settings), grafana, since_s=since_s, sleep=stop.wait, told=tell)
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
    "there": "was annotated already",
    "deleted": "stays deleted",
    "endless": "stays a line: an older laggard wrote it, and nothing says when it ended",
}


def _data_source_problems(grafana: Grafana, data_source: DataSource | None) -> list[str]:
    """What keeps panels and alerts empty."""
    if data_source is None:
        return ["there is no data source for Prometheus"]
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
    """Tell each thing as it is done."""
    done = []
    for one in steps:
        done.append(one)
        if not as_json and one.deed != "unchanged":
            why = f": {one.why}" if one.why else ""
            click.echo(f"{one.deed if one.deed != 'left' else 'left alone':12}{one.thing.name}{why}")
    return done


def _end(grafana: Grafana, done: Sequence[Done], told: Sequence[str], *, as_json: bool) -> int:
    """Sum up; the exit code is 1 where something was left alone."""
    left = [one for one in done if one.deed == "left"]
    if as_json:
        found: dict[str, Any] = {"url": grafana.url, "things": [one.to_json() for one in done], "hints": list(told)}
        click.echo(json.dumps(found))
        return FAILED if left else 0
    for each in told:
        click.echo(f"Hint: {each}.")
    if any(one.thing.state == "changed" for one in left):
        click.echo("`laggard grafana diff` shows what somebody else has changed; --force does it all the same.")
    counts = Counter("left alone" if one.deed == "left" else one.deed for one in done)
    summed = ", ".join(f"{count} {deed}" for deed, count in sorted(counts.items())) or "nothing is there"
    click.echo(f"Grafana at {grafana.url}: {summed}.")
    return FAILED if left else 0


def _table(rows: Iterable[tuple[str, str]]) -> None:
    rows = list(rows)
    width = max((len(name) for name, _ in rows), default=0)
    for name, said in rows:
        click.echo(f"  {name:{width}}  {said}")
