"""`laggard up`: agent, worker and page on this machine, under a supervisor."""

from __future__ import annotations

import math
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from laggard.pipeline.cli.exits import BUSY, USAGE, CommandError
from laggard.pipeline.cli.measured import check_supervised, sources_text
from laggard.pipeline.cli.options import duration_option, same_settings, setting_flag, to_type, with_settings
from laggard.pipeline.cli.page import asking
from laggard.pipeline.cli.part import claimed
from laggard.pipeline.cli.traced import traced_text, traces
from laggard.pipeline.core.claims import Claimed, holder_of
from laggard.pipeline.core.notify import Notifier
from laggard.pipeline.core.own import take_name
from laggard.pipeline.core.supervisor import STOPPING_S, Supervisor
from laggard.pipeline.core.watchdog import MemoryLimit
from laggard.pipeline.explaining.units import counted
from laggard.pipeline.investigator.settings import ServeSettings
from laggard.pipeline.settings.general import BusSettings, GeneralSettings, WorkerSettings
from laggard.pipeline.settings.producing import AgentSettings, MeasureSettings, TraceSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laggard.pipeline.core.claims import Part
    from laggard.pipeline.investigator.tokens import Token
    from laggard.pipeline.settings import Setting, Settings

NOT_ROOT = "not root, so I/O and descriptors of other users' processes are not seen"

PARTS: tuple[Part, ...] = ("serve", "work", "agent")
"""In the order of starting. The parts stop in the reverse order: the worker can still read the agent's last records.
If the settings name sources of performance, `measure` follows; if they name anything to trace, `trace` follows."""

_BETWEEN_LOOKS_S = 0.1

WORDS: dict[Part, tuple[str, ...]] = {"trace": ("trace", "run")}
"""The words of the command for a part, if they are not just its name."""

MEMORY: dict[Part, Setting[int]] = {
    "agent": AgentSettings.memory_bytes,
    "measure": MeasureSettings.memory_bytes,
    "serve": ServeSettings.memory_bytes,
    "trace": TraceSettings.memory_bytes,
    "work": WorkerSettings.memory_bytes,
}
"""The setting with the memory limit of each part."""


@click.command()
@with_settings
@duration_option
@setting_flag("--interval", AgentSettings.interval, "DURATION", "Time between ticks (setting agent.interval).")
def up(settings: Settings, duration_s: float | None) -> int:
    """Watch this machine: run agent, worker and page until ^C.

    The agent reads the counters of every process; the worker learns their baselines. `laggard why` shows deviations,
    and so does the page, in a browser (setting serve.listen).
    If the settings have `[[sources]]`, `laggard measure` also runs; if they name anything to trace (`trace.*`),
    `laggard trace` also runs.

    A part that dies, hangs, is stopped or uses too much memory (worker.memory_bytes and the like) is restarted. After
    20 failures in a row it is abandoned, and the others continue.
    """
    if "://" in settings[BusSettings].location:
        raise CommandError(
            f"up is for one machine and its embedded bus; on {settings[BusSettings].location} start "
            f"`{to_type(settings, 'agent')}` on each machine and `{to_type(settings, 'work')}` anywhere",
            USAGE,
        )
    parts = parts_of(settings)
    with claimed(settings, "up"):
        take_name("up")
        for part in parts:
            _await_free(settings, part)
        token = _try_ports(settings)
        _try_bus(settings)
        _remove_stale_tracing()
        terminal = Terminal(settings, token)
        supervised = ["--supervised", *same_settings()]
        supervisor = Supervisor(
            {
                part: [sys.executable, "-P", "-m", "laggard.pipeline.cli", *WORDS.get(part, (part,)), *supervised]
                for part in parts
            },
            terminal,
            final={USAGE, BUSY},
            memory={part: MemoryLimit(settings.value(setting), setting.name) for part, setting in MEMORY.items()},
        )

        def stop(*_: object) -> None:
            terminal.manager.stopping()
            supervisor.stop()

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, stop)
        code = supervisor.run(math.inf if duration_s is None else duration_s)
        _remove_stale_tracing()  # of a tracer that was killed, and had not started again
        terminal.end()
        return code


def _await_free(settings: Settings, part: Part) -> None:
    """Wait for a part of an `up` that was killed: it ends when it notices that, and has written its last state.

    Raises:
        CommandError: the part does not end, or somebody runs it alone.

    """
    location, until = settings[BusSettings].location, time.monotonic() + STOPPING_S
    announced = False
    while True:
        try:
            holder = holder_of(location, settings[GeneralSettings].state, part)
        except OSError as error:
            raise CommandError(f"{error.filename}: {error.strerror}") from None
        if holder is None:
            return
        if not holder.supervised or time.monotonic() > until:
            raise CommandError(str(Claimed(part, location, holder)), BUSY)
        if not announced:
            announced = True
            which = f"`laggard {part}` (process {holder.pid})"
            click.echo(f"waiting for {which} of an earlier `laggard up`, which was killed, to end ...", err=True)
        time.sleep(_BETWEEN_LOOKS_S)


def parts_of(settings: Settings) -> tuple[Part, ...]:
    """Return the parts that run with these settings. Raises `CommandError` for a source on standard input."""
    parts = PARTS
    if settings.sources:
        check_supervised(settings)
        parts = (*parts, "measure")
    return (*parts, "trace") if traces(settings) else parts


def _try_ports(settings: Settings) -> Token | None:
    """Raise `CommandError`, before the agent runs, if the worker or the page cannot listen.

    Returns the generated token that the page requires, if any.
    """
    from laggard.pipeline.investigator.access import page_listen  # noqa: PLC0415 - for a moment only
    from laggard.pipeline.investigator.tokens import token_of  # noqa: PLC0415
    from laggard.pipeline.web.listen import ListenError, worker_listen  # noqa: PLC0415

    try:
        worker_listen(settings).bind().close()
        page_listen(settings).bind().close()
        return token_of(settings)
    except ListenError as error:
        raise CommandError(str(error), BUSY) from None


def _try_bus(settings: Settings) -> None:
    """Raise `BusError` for a problem that no restart of a part fixes: a file that is no bus, or is not writable."""
    from laggard.pipeline.cli.opening import bus_of  # noqa: PLC0415 - only here: the supervisor stays small

    bus_of(settings).close()


def _remove_stale_tracing() -> None:
    """Remove the remains of a killed tracer, which slow down programs, even if nothing is to be traced from now on."""
    from laggard.producers.trace.ftrace.remains import remove_stale  # noqa: PLC0415 - the supervisor stays small

    for each in remove_stale():
        click.echo(f"removed {each}, which a killed tracer had left", err=True)


def introduction(settings: Settings, url: str, page: str, token: Token | None = None) -> str:
    """Return the introduction: what runs, where its data is, and what to type next."""
    host, location = settings[GeneralSettings].host, settings[BusSettings].location
    interval_s = settings[AgentSettings].interval
    bounds = f"at most {settings[BusSettings].max_bytes / 2**30:.3g} GiB, {settings[BusSettings].retention / 3600:g} h"
    commands = {
        to_type(settings, "why"): "what is slow, and the culprits",
        to_type(settings, "mark", "checkout hangs"): "remember this moment, with a note",
        to_type(settings, "watch"): "the same, live",
    }
    width = max(map(len, commands))
    token_lines = [] if token is None else [f"           {asking(token, page)}"]
    measured: list[str] = []
    if settings.sources:
        measured = [f"  sources  of {sources_text(each.key for each in settings.sources)}"]
    if traces(settings):
        measured.append(f"  traces   requests of {traced_text(settings)}")
    note = [] if os.geteuid() == 0 else [f"  note     {NOT_ROOT}: `{to_type(settings, 'doctor')}`"]
    return "\n".join(
        [
            f"laggard watches {host}: every process and the host itself, every {interval_s:g} s.",
            f"  data     {Path(location).absolute()} ({bounds})",
            f"  page     {page}",
            *token_lines,
            f"  metrics  {url}/metrics",
            *measured,
            *note,
            "It is learning the baseline; the first answer comes in a minute. Next, in another terminal:",
            *(f"  {command:{width}}  {purpose}" for command, purpose in commands.items()),
            "^C stops it.",
        ]
    )


def status(reports: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the status in one line."""
    agent, work = reports["agent"], reports["work"]
    parts = [counted(agent["ticks"], "tick"), f"{agent['rows']} processes"]
    if failing := reports.get("measure", {}).get("failing"):
        parts.append(f"{counted(failing, 'source')} in trouble")
    if traced := reports.get("trace"):
        parts.append(f"{counted(traced['requests'], 'request')} traced")
    if work["recovering"]:
        parts.append(f"catching up, {work['recovering']} records left")
    elif work["score"] is None:
        parts.append("no score yet")
    else:
        young = ", still learning" if work["young"] else ""
        parts.append(f"score {work['score']:.2f}{young}")
    return "   ".join(parts)


class Terminal:
    """The output of `up`: an introduction once all parts run, problems, and on a terminal a status line."""

    def __init__(self, settings: Settings, token: Token | None = None) -> None:
        self.manager = Notifier(os.environ)
        self._settings = settings
        self._token = token
        self._live = sys.stdout.isatty()
        self._introduced = False
        self._status = ""
        self._ticks = 0

    def announce(self, line: str) -> None:
        """Print a line that people must know."""
        self._draw("")
        # A line of a part already begins with the name of laggard.
        click.echo(f"laggard: {line.replace(': laggard: ', ': ', 1)}", err=True)

    def show(self, reports: Mapping[str, Mapping[str, Any]]) -> None:
        """Print the introduction once all parts run; then draw the status line."""
        if not self._introduced and all(part in reports for part in parts_of(self._settings)):
            self._introduced = True
            self.manager.ready()
            url, page = str(reports["work"]["url"]), str(reports["serve"]["url"])
            click.echo(introduction(self._settings, url, page, self._token))
        self._ticks = int(reports.get("agent", {}).get("ticks", 0))
        if self._live and self._introduced:
            self._draw(f"{time.strftime('%H:%M:%S')}  {status(reports)}")

    def alive(self) -> None:
        """Report to the service manager that the supervisor's loop runs."""
        self.manager.alive()

    def end(self) -> None:
        """Report on a terminal that all parts have stopped."""
        self._draw("")
        if self._live:
            click.echo(f"Stopped after {counted(self._ticks, 'tick')}; the recorded data stays.")

    def _draw(self, status: str) -> None:
        if self._live and status != self._status:
            width = shutil.get_terminal_size().columns - 1
            sys.stdout.write(f"\r\x1b[K{status[:width]}")
            sys.stdout.flush()
            self._status = status
