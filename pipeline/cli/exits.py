"""The exit codes of commands, and the error that carries one."""

from __future__ import annotations

import click

FAILED = 1
USAGE = 2
NO_DATA = 3
BUSY = 4
UNAVAILABLE = 5
INTERRUPTED = 130

MEANINGS = {
    0: "done",
    FAILED: "it failed, a check found a problem, or a recording has bad lines",
    USAGE: "the command line or a setting is wrong",
    NO_DATA: "no record, or more than one, matches that name or id",
    BUSY: "laggard runs here already, or its address is taken",
    UNAVAILABLE: "the bus or Grafana is unavailable",
    INTERRUPTED: "interrupted",
}


class CommandError(click.ClickException):
    """A failed command: one line for the user, and the exit code for the kind of failure."""

    def __init__(self, message: str, exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc] # click reads it from the instance
