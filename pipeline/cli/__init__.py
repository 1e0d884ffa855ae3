"""The command line: a group that imports a command only when it is called, so that each starts fast."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from typing import TYPE_CHECKING, NoReturn

import click

from laggard.pipeline.cli.exits import FAILED, INTERRUPTED, MEANINGS, UNAVAILABLE, USAGE, CommandError
from laggard.pipeline.cli.options import settings_given, settings_options, takes_settings
from laggard.pipeline.settings import SettingError

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = {
    "up": ("laggard.pipeline.cli.up", "Watch this machine: run agent, worker and page."),
    "agent": ("laggard.pipeline.cli.agent", "Run the agent alone: publish this machine's counters."),
    "measure": (
        "laggard.pipeline.cli.measure",
        "Publish the performance of applications and members of pools.",
    ),
    "work": ("laggard.pipeline.cli.work", "Run the worker alone: operators, metrics, marks over HTTP."),
    "serve": ("laggard.pipeline.cli.serve", "Run the page alone, with its JSON API."),
    "mark": ("laggard.pipeline.cli.mark", "Mark this moment as slow, with a note."),
    "why": ("laggard.pipeline.cli.why", "Show what is slow and the culprits, now or at any moment."),
    "watch": ("laggard.pipeline.cli.watch", "Show the same as why, live."),
    "incidents": ("laggard.pipeline.cli.incidents", "List incidents; show one in full."),
    "feedback": ("laggard.pipeline.cli.feedback", "Mark an incident as usual or expected; list feedback."),
    "models": ("laggard.pipeline.cli.models", "Show what explains the performance of applications, as equations."),
    "pools": ("laggard.pipeline.cli.pools", "Show which members of a pool deviate from the others."),
    "trace": ("laggard.pipeline.cli.trace", "Follow requests through the kernel, and publish where their time went."),
    "requests": ("laggard.pipeline.cli.requests", "Show outlying requests and their causes; draw the path of one."),
    "diagnose": ("laggard.pipeline.cli.diagnose", "Show what a process is doing; show recorded diagnoses."),
    "confirm": ("laggard.pipeline.cli.confirm", "Slow a suspect gently, and report whether others improve."),
    "replay": ("laggard.pipeline.cli.replay", "Run recorded data through the operators."),
    "topics": ("laggard.pipeline.cli.topics", "Create, list, describe and check the topics; print ACLs."),
    "grafana": ("laggard.pipeline.cli.grafana", "Publish dashboards, alert rules and annotations to Grafana."),
    "rules": ("laggard.pipeline.cli.rules", "Print alert rules for Prometheus, its operator or Grafana."),
    "reset": ("laggard.pipeline.cli.reset", "Reset operators: drop what they have learned."),
    "doctor": ("laggard.pipeline.cli.doctor", "Check configuration, permissions, kernel, disk, bus, clock and parts."),
}
"""The commands by name: the module that has the command as an attribute of that name, and its line in the help."""


class LazyGroup(click.Group):
    """A group that imports a command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names, in the order in which a newcomer needs them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the command; None if there is none of this name."""
        if cmd_name not in COMMANDS:
            return None
        command = getattr(importlib.import_module(COMMANDS[cmd_name][0]), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command. Suggest one for a misspelled name, and reject settings before a command without any."""
        if args[0] not in COMMANDS and (close := difflib.get_close_matches(args[0], COMMANDS, n=1)):
            ctx.fail(f"No such command {args[0]!r}; did you mean {close[0]!r}?")
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and settings_given() and not takes_settings(command):
            ctx.fail(f"{name!r} takes no settings; expected nothing before it")
        return name, command, rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the exit codes, and how to get completion."""
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), meaning) for code, meaning in MEANINGS.items()])
        with formatter.section("Completion"):
            formatter.write_dl([("bash", 'eval "$(_LAGGARD_COMPLETE=bash_source laggard)"')])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="laggard", message="laggard %(version)s")
@settings_options
def laggard() -> None:
    """Find what is slow on machines, and the culprits.

    Start with `laggard up`; a minute later, run `laggard why`.
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit. Errors are printed without a traceback, unless with `--debug`."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, and return the exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in arguments
    # Matrices here are small: threads of the linear algebra would only wait for each other, at ten times the cost.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        code = laggard.main(arguments, prog_name="laggard", standalone_mode=False)
    except Exception as error:
        if debug:
            raise
        return _report(error)
    return code if isinstance(code, int) else 0


def _report(error: Exception) -> int:
    """Print an error without its traceback, and return the exit code."""
    from laggard.pipeline.core.bus import BusError, BusUnavailable  # noqa: PLC0415 - only when something went wrong

    lines: tuple[str, ...] = (str(error).partition("\n")[0],)
    code = FAILED
    match error:
        case CommandError():
            lines, code = (error.message,), error.exit_code
        case click.ClickException():
            error.show()
            lines, code = (), error.exit_code
        case click.Abort():
            lines, code = (), INTERRUPTED
        case SettingError():
            lines, code = error.problems, USAGE
        case BusError():
            code = UNAVAILABLE if isinstance(error, BusUnavailable) else FAILED
        case BrokenPipeError():
            # The reader of the output has closed it. The interpreter's flush at exit must not report that again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            lines = ()
        case _:
            lines = (f"{type(error).__name__}: {lines[0]} (more with --debug)",)
    for line in lines:
        click.echo(f"laggard: {line}", err=True)
    return code
