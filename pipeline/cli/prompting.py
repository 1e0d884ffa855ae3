"""Prompts of commands that change or remove something."""

from __future__ import annotations

import sys

import click

from laggard.pipeline.cli.exits import USAGE, CommandError


def check_yes(*, as_json: bool, yes: bool) -> None:
    """Raise `CommandError` if a command that prompts is to print JSON, and `--yes` is not given."""
    if as_json and not yes:
        raise CommandError("--json cannot prompt; expected --yes with it", USAGE)


def ask_to_go_on() -> None:
    """Prompt, and abort the command unless the answer is yes. Raises `CommandError` without a terminal."""
    if not sys.stdin.isatty():
        raise CommandError("cannot prompt here; expected --yes", USAGE)
    click.confirm("Go on?", abort=True)
