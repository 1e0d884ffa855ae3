"""`laggard confirm`: slow a suspect gently for some seconds, and see whether anything else improves."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import sys
import time
from typing import TYPE_CHECKING, Final, NoReturn

import click

from laggard.pipeline.cli.exits import FAILED, NO_DATA, CommandError
from laggard.pipeline.cli.prompting import check_yes
from laggard.pipeline.confirm.brake import Brake, own_group
from laggard.pipeline.confirm.measures import MeasureError, Meter
from laggard.pipeline.confirm.study import run, sentences, to_json
from laggard.pipeline.confirm.suspect import RefusedError, check, hold
from laggard.pipeline.explaining.explain import printable
from laggard.pipeline.processes import UnknownProcessError, find
from laggard.pipeline.settings.kinds import duration, ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from laggard.pipeline.confirm.study import Result
    from laggard.pipeline.processes import Process

USED_S: Final = 0.5
"""The time for which the CPU time of the suspect is measured before it is limited, in seconds."""


@click.command()
@click.argument("row")
@click.option(
    "--measure",
    "command",
    metavar="COMMAND",
    default="",
    help="The command that measures the response time, by the last number that it prints, otherwise by its duration.",
)
@click.option(
    "--duration",
    "length",
    metavar="DURATION",
    default="20s",
    show_default=True,
    help="The minimum duration of the experiment, from `5s` to `10m`.",
)
@click.option(
    "--pairs",
    type=click.IntRange(6, 12),
    default=8,
    show_default=True,
    help="The number of pairs: in each the suspect is slowed once and left alone once, in random order.",
)
@click.option(
    "--share",
    metavar="SHARE",
    default="50%",
    show_default=True,
    help="The share of its time that the suspect is kept from running, from `5%` to `90%`.",
)
@click.option("--seed", type=int, help="The seed of the random order.  [default: a new one each time]")
@click.option("--force", is_flag=True, help="Slow even this session's leader, or a terminal's foreground process.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for programs; needs --yes.")
@click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")
def confirm(
    row: str,
    *,
    command: str,
    length: str,
    pairs: int,
    share: str,
    seed: int | None,
    force: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Slow the process ROW gently for some seconds, and report whether anything else improved.

    ROW is a row id as in `laggard why --json`, a process id, or a name that only one process has. The process is
    stopped and released ten times a second. If it is alone in a control group (version 2), its CPU time is limited
    instead. It is released at the end, at ^C, and if laggard is killed.
    """
    length_s, part = _length(length), _part(share)
    check_yes(as_json=as_json, yes=yes)

    try:
        suspect = find(row)
        check(suspect, force=force)
        pidfd = hold(suspect)
    except UnknownProcessError as error:
        raise CommandError(str(error), NO_DATA) from None
    except RefusedError as error:
        raise CommandError(str(error), FAILED) from None
    group = own_group(suspect.pid)
    if not yes:
        _ask(suspect, group, length_s, part)
    seed = secrets.randbelow(1 << 31) if seed is None else seed
    signal.signal(signal.SIGTERM, _interrupted)
    period_s = length_s / (2 * pairs + 2)
    quota = None if group is None else (group, _used(suspect.pid))
    try:
        with Brake(pidfd, part, quota) as brake, _progress(2 * pairs) as report_progress:
            result = run(
                brake,
                Meter(suspect.pid, command),
                pairs=pairs,
                period_s=period_s,
                seed=seed,
                progress=report_progress,
                alive=lambda: _alive(pidfd),
            )
    except ProcessLookupError:
        raise CommandError(f"{suspect.row} has ended meanwhile") from None
    except BrokenPipeError:
        raise CommandError("the process that slows the suspect was killed; the suspect runs freely again") from None
    except MeasureError as error:
        raise CommandError(f"--measure: {error}") from None
    finally:
        os.close(pidfd)
    _report(suspect, result, seed, "quota" if group else "signals", part, as_json=as_json)


def _length(text: str) -> float:
    return _bounded("--duration", text, duration, (5.0, 600.0), "a duration from 5s to 10m")


def _part(text: str) -> float:
    return _bounded("--share", text, ratio, (0.05, 0.9), "a share from 5% to 90%")


def _bounded(option: str, text: str, read: Callable[[str], float], bounds: tuple[float, float], expected: str) -> float:
    """Return the value of an option. Raises `click.BadParameter` if it cannot be read, or is out of bounds."""
    try:
        value = read(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r}; expected {error}", param_hint=option) from None
    if not bounds[0] <= value <= bounds[1]:
        raise click.BadParameter(f"{text!r}; expected {expected}", param_hint=option)
    return value


def _interrupted(_: int, __: object) -> NoReturn:
    raise KeyboardInterrupt


def _ask(suspect: Process, group: Path | None, length_s: float, part: float) -> None:
    how = "stopped and let go, ten times a second" if group is None else "limited in its CPU time"
    click.confirm(
        f"{printable(suspect.name)} (pid {suspect.pid}) will be {how}, to run {1.0 - part:.0%} of its time, now and "
        f"then for {length_s:g} s. Slow it?",
        abort=True,
    )


def _used(pid: int) -> float:
    """Return the CPU time that a process uses per second. Raises `ProcessLookupError` if that cannot be measured."""
    import psutil  # noqa: PLC0415 - only where it is limited

    try:
        return float(psutil.Process(pid).cpu_percent(USED_S)) / 100.0
    except psutil.Error:
        raise ProcessLookupError from None


def _alive(pidfd: int) -> bool:
    """Return whether the process still runs: its descriptor becomes readable once it has ended."""
    import select  # noqa: PLC0415

    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return not poll.poll(0)


@contextlib.contextmanager
def _progress(periods: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on standard error if that is a terminal. Yields a function of the number of past periods."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (TextColumn("slowed now and then"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("", total=periods)
        yield lambda over: progress.update(bar, completed=over)


def _report(suspect: Process, result: Result, seed: int, how: str, part: float, *, as_json: bool) -> None:
    if as_json:
        who = {"ts": time.time(), "row": suspect.row, "pid": suspect.pid, "how": how, "share": part, "seed": seed}
        click.echo(json.dumps(who | to_json(result)))
        return
    for line in sentences(result, f"`{printable(suspect.name)}` (pid {suspect.pid})"):
        click.echo(line)
