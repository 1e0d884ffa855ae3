"""The options that every command with settings has."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

import click

from laggard.pipeline.settings import Given, Settings, parse_assignment, read_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

P = ParamSpec("P")
R = TypeVar("R")

_FLAGS = "laggard.flags"


def setting_flag(flag: str, name: str, metavar: str, description: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """An option that is a shorter way to write `--set NAME=VALUE`; used together with `with_settings`."""

    def remember(context: click.Context, _: click.Parameter, value: str | None) -> None:
        if value is not None:
            context.meta.setdefault(_FLAGS, []).append(Given(name, value, flag))

    return click.option(flag, metavar=metavar, expose_value=False, callback=remember, help=description)


def with_settings(command: Callable[Concatenate[Settings, P], R]) -> Callable[P, R]:
    """Give the command the settings as its first argument, with `--config`, `--bus`, `--set` and `--debug`."""

    @click.option(
        "--config",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Configuration file. [default: the first of ./laggard.toml, ~/.config/laggard/laggard.toml, "
        "/etc/laggard/laggard.toml]",
    )
    @setting_flag("--bus", "bus.location", "PATH", "Where the bus is (setting bus.location).")
    @click.option("--set", "assignments", metavar="NAME=VALUE", multiple=True, help="Set any setting, repeatable.")
    @click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")
    @functools.wraps(command)
    def read_first(*args: P.args, **kwargs: P.kwargs) -> R:
        config = kwargs.pop("config")
        assignments = kwargs.pop("assignments")
        assert config is None or isinstance(config, Path)
        assert isinstance(assignments, tuple)
        return command(read(config, assignments, click.get_current_context().meta.get(_FLAGS, ())), *args, **kwargs)

    return read_first


def read(config: Path | None, assignments: Sequence[str], flags: Sequence[Given]) -> Settings:
    """The settings as the command line gives them; an own flag wins over `--set`."""
    return read_settings(config, flags=[*(parse_assignment(text) for text in assignments), *flags])
