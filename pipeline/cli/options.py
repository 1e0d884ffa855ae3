"""Options that commands share, and command lines of other commands for a person to type."""

from __future__ import annotations

import functools
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import click

from laggard.pipeline.cli.exits import USAGE, CommandError
from laggard.pipeline.cli.times import parse_shown
from laggard.pipeline.manifest import read_settings
from laggard.pipeline.settings import Given, Settings, parse_assignment
from laggard.pipeline.settings.general import BusSettings, GeneralSettings
from laggard.pipeline.settings.kinds import duration
from laggard.pipeline.settings.producing import RedactionSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from laggard.pipeline.settings import Setting

P = ParamSpec("P")
R = TypeVar("R")

PROGRAM_VARIABLE = "_LAGGARD_PROGRAM"
"""The variable with the command that a person typed, if that is not `laggard`; `deploy/laggard` sets it."""

_GIVEN = "laggard.given"
_REACHING = ("kafka.", "topics.prefix")  # without these another command does not find the same records


def seconds(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:  # noqa: ARG001
    """Return the seconds of an option's duration, such as `60s` or `5m`: a callback for click."""
    if value is None:
        return None
    try:
        read = duration(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r}; expected {error}") from None
    if read <= 0:
        raise click.BadParameter(f"{value!r}; expected more than nothing")
    return read


duration_option = click.option(
    "--duration", "duration_s", metavar="DURATION", callback=seconds, help="Stop after this time.  [default: never]"
)
"""The option of commands that run until they are stopped. Its argument is `duration_s`; None for no limit."""

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for programs.")
json_lines_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object per line, for programs."
)
"""The options of commands whose results programs read. The argument is `as_json`."""

rows_option = click.option("--rows", type=click.IntRange(1, 1000), default=5, show_default=True, help="Rows to show.")
features_option = click.option(
    "--features", type=click.IntRange(1, 1000), default=3, show_default=True, help="Features to show per row."
)
"""The options of commands that show a ranking."""


def past_moment(at: str | None, now: float) -> float | None:
    """Return the moment of `--at`; None without it. Raises `CommandError` for a moment in the future."""
    if at is None:
        return None
    try:
        ts = parse_shown(at, now)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--at") from None
    if ts > now:
        raise CommandError(f"--at {at} is in the future", USAGE)
    return ts


def setting_flag(
    flag: str, setting: Setting[Any], metavar: str, description: str
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return an option that is short for `--set NAME=VALUE`; used below `with_settings`."""

    def remember(_: click.Context, __: click.Parameter, value: str | None) -> None:
        if value is not None:
            give(setting, value, flag)

    return click.option(flag, metavar=metavar, expose_value=False, callback=remember, help=description)


def give(setting: Setting[Any], value: str, flag: str) -> None:
    """Set a setting by an option of the command, as `setting_flag` does."""
    click.get_current_context().meta.setdefault(_GIVEN, []).append(Given(setting.name, value, flag))


def settings_options(command: Callable[P, R]) -> Callable[P, R]:
    """Add the options `--config`, `--bus`, `--set` and `--debug`, for `given_settings` to read.

    They may stand before and after the command's name. If both set the same, the later one wins.
    """

    def remember(context: click.Context, parameter: click.Parameter, value: object) -> None:
        name = f"{_GIVEN}.{parameter.name}"
        if isinstance(value, tuple):
            value = (*context.meta.get(name, ()), *value)
        if value:
            context.meta[name] = value

    for option in (
        click.option(
            "--debug", is_flag=True, expose_value=False, callback=remember, help="Show the traceback of an error."
        ),
        click.option(
            "--set",
            "assignments",
            metavar="NAME=VALUE",
            multiple=True,
            expose_value=False,
            callback=remember,
            help="Set a setting; repeatable.",
        ),
        setting_flag(
            "--bus",
            BusSettings.location,
            "PATH",
            "Where the bus is: a file, or kafka://HOST:PORT (setting bus.location).",
        ),
        click.option(
            "--config",
            type=click.Path(dir_okay=False, path_type=Path),
            expose_value=False,
            callback=remember,
            help="Configuration file.  [default: the first of ./laggard.toml, ~/.config/laggard/laggard.toml, "
            "/etc/laggard/laggard.toml]",
        ),
    ):
        command = option(command)
    return command


def given_settings() -> Settings:
    """Return the settings, with those of the command line; other flags win over `--set`. Raises `SettingError`."""
    settings = read_settings(_config(), flags=_given())
    enabled, more = settings[RedactionSettings].enabled, settings[RedactionSettings].names
    if more or not enabled:
        from laggard.producers.system.redaction import configure  # noqa: PLC0415 - the defaults need no call

        configure(enabled=enabled, more=more)
    return settings


def with_settings(command: Callable[Concatenate[Settings, P], R]) -> Callable[P, R]:
    """Add `settings_options` to a command, and pass it the settings as its first argument."""

    @functools.wraps(command)
    def read_first(*args: P.args, **kwargs: P.kwargs) -> R:
        return command(given_settings(), *args, **kwargs)

    return settings_options(read_first)


def same_settings() -> list[str]:
    """Return the options that give another process the settings of this command."""
    config = _config()
    return [
        *(["--debug"] if click.get_current_context().meta.get(f"{_GIVEN}.debug") else []),
        *(["--config", str(config)] if config else []),
        *(word for one in _given() for word in ("--set", f"{one.name}={one.value}")),
    ]


def to_type(settings: Settings, *words: str) -> str:
    """Return the command line of another command on the same bus, for a person to type."""
    where: list[str] = []
    if click.get_current_context(silent=True) and _config():
        where += ["--config", str(_config())]
    if settings.place(GeneralSettings.state).startswith("--"):
        where += ["--set", f"state={settings[GeneralSettings].state}"]
    if click.get_current_context(silent=True):
        reaching = {one.name: one.value for one in _given() if one.name.startswith(_REACHING)}
        where += [word for name, value in reaching.items() for word in ("--set", f"{name}={value}")]
    if settings.place(BusSettings.location).startswith("--"):
        where += ["--bus", settings[BusSettings].location]
    return shlex.join([program(), *words, *where])


def settings_given() -> bool:
    """Return whether any option of `settings_options` was given so far."""
    return any(name.startswith(_GIVEN) for name in click.get_current_context().meta)


def takes_settings(command: click.Command) -> bool:
    """Return whether a command has the options of `settings_options`; true for any group."""
    return isinstance(command, click.Group) or any(each.name == "config" for each in command.params)


def program() -> str:
    """Return the command by which a person calls laggard here."""
    return os.environ.get(PROGRAM_VARIABLE, "laggard")


def _config() -> Path | None:
    config = click.get_current_context().meta.get(f"{_GIVEN}.config")
    return config if isinstance(config, Path) else None


def _given() -> list[Given]:
    meta = click.get_current_context().meta
    return [*map(parse_assignment, meta.get(f"{_GIVEN}.assignments", ())), *meta.get(_GIVEN, ())]
