"""`laggard models`: models that explain the performance of applications, their predictions, and wishes for them."""

from __future__ import annotations

import json
import math
import sys
import time
from typing import TYPE_CHECKING, Final, cast

import click
from rich.text import Text

from laggard.pipeline.cli.exits import NO_DATA, USAGE, CommandError
from laggard.pipeline.cli.groups import ShowGroup
from laggard.pipeline.cli.opening import existing_bus, topics_of
from laggard.pipeline.cli.options import json_lines_option, json_option, to_type, with_settings
from laggard.pipeline.cli.pages import console_of, write
from laggard.pipeline.core.records import RecordError, Wish
from laggard.pipeline.core.records.outputs import write_output
from laggard.pipeline.core.records.strict_json import json_number
from laggard.pipeline.core.topics import APPLICATIONS
from laggard.pipeline.explaining.names import first_of
from laggard.pipeline.history.rebuilding import known_keys
from laggard.pipeline.methods.applications.method import regression_stage
from laggard.pipeline.methods.applications.queries import application_now, known_metrics, past_models, replayed_models
from laggard.pipeline.methods.applications.report import WhatIf, course_lines, present_lines, what_if_lines, wish_lines
from laggard.pipeline.methods.applications.wishing import UnknownApplicationError, UnknownMetricError, publish
from laggard.pipeline.methods.applications.wishing import what_if as asked
from laggard.pipeline.settings.kinds import duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from laggard.pipeline.core.bus import Bus
    from laggard.pipeline.core.records.frame import WishKind
    from laggard.pipeline.methods.applications.application import Application
    from laggard.pipeline.methods.applications.queries import Course
    from laggard.pipeline.settings import Settings

LISTED: Final = 10
"""The most applications that an error names."""

STANDARD_INPUT: Final = "-"

_DONE: Final = {"pin": "Pinned", "ban": "Banned", "free": "Freed"}


@click.group(
    cls=ShowGroup,
    context_settings={"help_option_names": ["-h", "--help"], "ignore_unknown_options": True},
    options_metavar="",
    subcommand_metavar="[COMMAND|APP] [OPTIONS]",
)
def models() -> None:
    """Show what explains the performance of applications: the present model of each, as an equation.

    With the name of an application, also show the candidates of its model, and its earlier models.
    `laggard models show --help` lists the options.
    """


def _seconds(context: click.Context, parameter: click.Parameter, value: str) -> float:  # noqa: ARG001
    try:
        return duration(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r}; expected {error}") from None


@models.command(short_help="Show the present models; of one application, also its earlier ones.")
@with_settings
@click.argument("application", metavar="[APP]", default="")
@click.option(
    "--since",
    "since_s",
    default="24h",
    show_default=True,
    metavar="DURATION",
    callback=_seconds,
    help="For an application, show also the models that were built within this time.",
)
@click.option(
    "--file",
    "path",
    metavar="FILE",
    help="Read the output of `laggard replay --json` from this file, or from - (standard input).  [default: the bus]",
)
@json_lines_option
def show(settings: Settings, *, application: str, since_s: float, path: str | None, as_json: bool) -> None:
    """Show the present models: those of APP in full, otherwise those of all applications.

    --json prints records of the kind `model`: the present ones and, with APP, also earlier ones, the newest first.
    deploy/docs/reference/models.md explains their fields. The exit code is 3 if there is no model.
    """
    now = time.time()
    if path is not None:
        courses, state = _of_file(path, application), None
    else:
        with existing_bus(settings) as bus:
            courses = past_models(bus, topics_of(settings), now - since_s, application or None)
            _check_there(settings, bus, courses, application)
            state = _state(settings, bus, application) if application and not as_json else None
    if not courses:
        raise CommandError(f"{path}: there is no model{f' of {application}' if application else ''} in it", NO_DATA)
    if as_json:
        _write_json(courses, now - since_s, everything=bool(application))
    elif application:
        _write_application(settings, courses, state, now)
    else:
        _write_all(settings, courses, since_s, now, of_file=path is not None)


def _of_file(path: str, application: str) -> list[Course]:
    try:
        with click.open_file(path, "rb") as lines:
            return replayed_models(lines, path, application or None)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}", NO_DATA) from None
    except RecordError as error:
        raise CommandError(f"{error}; expected what `laggard replay --json` prints", USAGE) from None


def _check_there(settings: Settings, bus: Bus, courses: Sequence[Course], application: str) -> None:
    """Raise `CommandError` if there is no model. The message says what is missing."""
    if courses:
        return
    known = known_keys(bus, topics_of(settings).name(APPLICATIONS))
    if application in known:
        raise CommandError(_none_yet(settings, bus, [application]), NO_DATA)
    if known:
        raise CommandError(unknown(application, known) if application else _none_yet(settings, bus, known), NO_DATA)
    needs = "its performance, which [[sources]] give, and hosts that serve it (applications.hosts)"
    raise CommandError(f"there are no records of {application or 'any application'}; it needs {needs}", NO_DATA)


def unknown(application: str, known: Sequence[str]) -> str:
    """Return the error for an unknown application, which names recorded ones."""
    others = f"; recorded: {_listed(known)}" if known else ", nor of any other"
    return f"there are no records of application {application}{others}"


def _none_yet(settings: Settings, bus: Bus, known: Sequence[str]) -> str:
    needs = "it takes ten intervals of an application's performance, with the counters of the hosts that serve it"
    alone = [each for each in known[:LISTED] if not known_metrics(bus, topics_of(settings), each)]
    lacks = f"; of {_listed(alone)} no counters are recorded (applications.hosts says which hosts serve it)"
    return f"there is no model of {_listed(known)} yet: {needs}{lacks if alone else ''}"


def _listed(names: Sequence[str]) -> str:
    return first_of(names, LISTED)


def _state(settings: Settings, bus: Bus, application: str) -> Application | None:
    return application_now(bus, topics_of(settings), regression_stage(settings), application)


def _write(lines: Iterable[Text]) -> None:
    write(lines, console_of(sys.stdout))


def _write_json(courses: Sequence[Course], since: float, *, everything: bool) -> None:
    for course in courses:
        older = [each for each in course.models[1:] if each.ts >= since] if everything else []
        for each in (course.present, *older):
            click.echo(write_output(each))


def _write_all(settings: Settings, courses: Sequence[Course], since_s: float, now: float, *, of_file: bool) -> None:
    _write(present_lines(courses, math.nan if of_file else since_s, now))
    if not of_file:
        command = to_type(settings, "models", courses[0].present.application)
        click.echo(f"\nNext: `{command}` for its candidate metrics and earlier models")


def _write_application(settings: Settings, courses: Sequence[Course], state: Application | None, now: float) -> None:

    pinned, banned = (state.operator.pinned, state.operator.banned) if state else ((), ())
    for number, course in enumerate(courses):
        if number:
            click.echo()
        _write(course_lines(course, pinned, banned, now))
    if state is None:
        return
    wishes = list(wish_lines(pinned, banned, [(metric, wish) for _, metric, wish in state.wishes]))
    _write([Text(), *wishes] if wishes else [])
    if example := next((each.present for each in courses if each.present.terms), None):
        metric = f"{example.terms[0].metric.row}:{example.terms[0].metric.feature}"
        command = to_type(settings, "models", "what-if", example.application, f"{metric}=VALUE")
        click.echo(f"\nNext: `{command}` for a prediction at another value")


@models.command("what-if", short_help="Predict the performance at a value of a metric.")
@with_settings
@click.argument("application", metavar="APP")
@click.argument("assumed", metavar="METRIC=VALUE")
@json_option
def what_if(settings: Settings, *, application: str, assumed: str, as_json: bool) -> None:
    """Predict the performance of APP by its models, with METRIC at VALUE and all others at their newest values.

    VALUE is in the base unit that the metric's name ends with, or in percent: `0.2`, `20%`, `5e6`. A model shows
    correlations: it is no promise, least of all for values far from those that it has seen.
    """
    metric, value = _assumed(assumed)

    with existing_bus(settings) as bus:
        state = _state(settings, bus, application)
        if state is None or not state.operator.models:
            _check_there(settings, bus, (), application)
    assert state is not None
    operator = state.operator
    newest = operator.newest.get(metric, math.nan)
    found = asked(operator, metric, value)
    if not found:
        raise CommandError(_not_in_models(state, metric), NO_DATA)
    if as_json:
        click.echo(_what_if_json(application, metric, value, newest, found))
    else:
        _write(what_if_lines(application, metric, value, newest, found))


def _assumed(text: str) -> tuple[str, float]:
    # A metric may have labels with an equals sign; a value has none.
    metric, equals, value = text.rpartition("=")
    try:
        number = float(value.removesuffix("%")) * (0.01 if value.endswith("%") else 1.0)
    except ValueError:
        number = math.nan
    if not equals or not metric or not math.isfinite(number):
        expected = "a metric, an equals sign and a number: web-1:pressure_cpu_some_ratio=0.2"
        raise click.BadParameter(f"{text!r}; expected {expected}", param_hint="METRIC=VALUE")
    return metric, number


def _not_in_models(state: Application, metric: str) -> str:
    terms = [term for model in state.operator.models.values() for term in model.terms]
    same = next((term.metric for term in terms if metric in term.family), None)
    if same is not None:
        return f"{metric} is redundant with {same}, which is in the model; ask about that one"
    names = ", ".join(dict.fromkeys(term.metric for term in terms)) or "no metrics"
    return f"{metric} is in no model; the models have {names}"


def _what_if_json(application: str, metric: str, value: float, newest: float, found: Sequence[object]) -> str:

    answers = {
        each.performance: {"now": json_number(each.now), "then": json_number(each.then)}
        for each in found
        if isinstance(each, WhatIf)
    }
    of = {"application": application, "metric": metric, "value": value, "newest": json_number(newest)}
    return json.dumps({**of, "performance": answers})


def _wishing(wish: str, short_help: str, text: str) -> None:
    """Add the command that makes this wish."""

    @models.command(wish, short_help=short_help, help=text)
    @with_settings
    @click.argument("application", metavar="APP")
    @click.argument("metric", metavar="METRIC")
    def command(settings: Settings, *, application: str, metric: str) -> None:
        _publish(settings, application, metric, cast("WishKind", wish))


_KEPT: Final = (
    "This holds from the application's next interval on, across restarts, until another pin, ban or free of the same "
    "metric."
)

_wishing(
    "pin",
    "Keep a metric in the models of an application's response time.",
    f"Keep METRIC, such as web-1/nginx:cpu_wait_ratio, in every model of a response time of APP. {_KEPT}",
)
_wishing(
    "ban",
    "Keep a metric out of the models of an application.",
    f"Keep METRIC, such as web-1/nginx:cpu_wait_ratio, out of all models of APP. {_KEPT}",
)
_wishing(
    "free",
    "Undo a pin or a ban.",
    f"Let laggard decide again whether METRIC is in the models of APP. {_KEPT}",
)


def _publish(settings: Settings, application: str, metric: str, wish: WishKind) -> None:
    with existing_bus(settings) as bus:
        try:
            wished = Wish(application, time.time(), metric, wish)
            publish(bus, topics_of(settings), lambda: regression_stage(settings), wished)
        except RecordError as error:
            raise CommandError(str(error), USAGE) from None
        except UnknownApplicationError:
            _check_there(settings, bus, (), application)
        except UnknownMetricError as error:
            suggestion = f"; similar: {', '.join(error.near)}" if error.near else ""
            raise CommandError(f"{error}{suggestion}", NO_DATA) from None
    click.echo(f"{_DONE[wish]} {metric}: this holds from the next interval of {application} on.")
    click.echo(f"Next: `{to_type(settings, 'models', application)}`")
