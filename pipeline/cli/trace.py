"""`laggard trace`: follows requests through the kernel, and publishes where the time of each went."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, Final, ParamSpec, TypeVar

import click

from laggard.pipeline.cli.exits import BUSY, FAILED, NO_DATA, USAGE, CommandError
from laggard.pipeline.cli.options import (
    duration_option,
    give,
    given_settings,
    json_option,
    same_settings,
    setting_flag,
    settings_options,
    to_type,
    with_settings,
)
from laggard.pipeline.cli.part import session, supervised_option
from laggard.pipeline.cli.publishing import check_host, is_remote
from laggard.pipeline.cli.trace_status import failure_of, last_words, status_lines, summary
from laggard.pipeline.cli.traced import traces
from laggard.pipeline.core.claims import Claimed, holder_of
from laggard.pipeline.settings.general import BusSettings, GeneralSettings
from laggard.pipeline.settings.producing import TraceSettings
from laggard.pipeline.tracing import STATUS, read_figures

if TYPE_CHECKING:
    from collections.abc import Callable

    from laggard.pipeline.core.claims import Holder, Part
    from laggard.pipeline.settings import Settings
    from laggard.pipeline.tracing import Figures

P = ParamSpec("P")
R = TypeVar("R")

LOG: Final = "trace.log"
"""The log of a tracing in the background, in the directory `state`."""

MARKER: Final = "/run/laggard/trace_marker"
"""The default marker file of laggard's middleware."""

PHP: Final = "php"
"""The default name of the service of PHP."""

STARTING_S: Final = 30.0
STOPPING_S: Final = 30.0
"""The longest waits for the start and the end of a tracing, in seconds."""

_CHECK_S: Final = 0.1


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def trace() -> None:
    """Follow requests through the kernel, and publish where the time of each went.

    It needs root, and Linux with tracefs; `laggard doctor` reports what is missing. `laggard requests` shows the
    published requests.
    """


def _tracing_options(command: Callable[Concatenate[Settings, P], R]) -> Callable[P, R]:
    """Add the options for what is traced, which are short for settings, and pass the settings to the command."""

    @functools.wraps(command)
    def read_first(*args: P.args, **kwargs: P.kwargs) -> R:
        php, service = kwargs.pop("php"), kwargs.pop("service")
        if service and not php:
            raise click.UsageError("--service names PHP's requests; expected --php with it")
        if php:
            give(TraceSettings.php, str(service or PHP), "--php")
        if kwargs.pop("marker") and not given_settings()[TraceSettings].marker:
            give(TraceSettings.marker, MARKER, "--marker")
        for flag, setting, values in (
            ("--uprobe", TraceSettings.functions, kwargs.pop("functions")),
            ("--port", TraceSettings.ports, kwargs.pop("ports")),
        ):
            assert isinstance(values, tuple)
            if values:
                give(setting, ",".join(values), flag)
        return command(given_settings(), *args, **kwargs)

    wrapped: Callable[P, R] = read_first
    for option in (
        setting_flag(
            "--events-per-second",
            TraceSettings.events_per_s,
            "N",
            "Record at most this number of kernel events per second (setting trace.events_per_s).",
        ),
        click.option(
            "--port",
            "ports",
            metavar="SERVICE=PORT",
            multiple=True,
            help="Each connection to this port of this machine is a request; repeatable (setting trace.ports).",
        ),
        click.option(
            "--uprobe",
            "functions",
            metavar="SERVICE=BINARY:FUNCTION",
            multiple=True,
            help="Each call of this function is a request; repeatable (setting trace.functions).",
        ),
        click.option(
            "--marker",
            is_flag=True,
            help="Trace requests that programs mark, such as by the middleware of laggard (trace.marker).",
        ),
        click.option("--service", metavar="NAME", help=f"The name of the service of PHP's requests.  [default: {PHP}]"),
        click.option("--php", is_flag=True, help="Trace requests of PHP-FPM by PHP's own probes (setting trace.php)."),
    ):
        wrapped = option(wrapped)
    return settings_options(wrapped)


_output_option = click.option(
    "--output",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Record to this new folder for a later `laggard trace read`, instead of publishing.",
)


@trace.command(short_help="Start tracing in the background.")
@_tracing_options
@duration_option
@_output_option
def start(settings: Settings, *, duration_s: float | None, output: Path | None) -> None:
    """Start tracing in the background, until `laggard trace stop`. Report once it records, or why it does not.

    The settings `trace.*` or these options select what is traced. PHP's requests are traced by its own probes (Debian's
    php-fpm has them). Others are traced if their programs mark them, by calls of any function of any program, or by
    connections to a port. `laggard up` traces by itself if the settings select anything.
    """
    _check_traces(settings)
    if (holder := _holder(settings)) is not None:
        raise CommandError(str(Claimed("trace", settings[BusSettings].location, holder)), BUSY)
    log = settings[GeneralSettings].state / LOG
    command = [sys.executable, "-P", "-m", "laggard.pipeline.cli", "trace", "run", *same_settings()]
    command += [] if duration_s is None else ["--duration", f"{duration_s}s"]
    command += [] if output is None else ["--output", str(output)]
    try:
        log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise CommandError(f"{log}: {error.strerror}; set state to a folder where you may write") from None
    with os.fdopen(descriptor, "wb") as written:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=written, stderr=written, start_new_session=True
        )
    figures = _await_recording(settings, process, log)
    where = "" if output is None else f" to {output}"
    click.echo(f"laggard traces {figures.what}{where}, as process {process.pid}; its log is {log}.")
    if output is None:
        if not is_remote(settings) and _holder(settings, "work") is None:
            up = to_type(settings, "up")
            click.echo(f"Note: no worker runs on {settings[BusSettings].location} to score them: `{up}`")
        click.echo(
            f"Next: `{to_type(settings, 'requests')}` in a minute; `{to_type(settings, 'trace', 'stop')}` ends it"
        )
    else:
        click.echo(
            f"Next: `{to_type(settings, 'trace', 'stop')}`, then `{to_type(settings, 'trace', 'read', str(output))}`"
        )


@trace.command(short_help="Trace until ^C, in the foreground.")
@_tracing_options
@duration_option
@_output_option
@supervised_option
def run(settings: Settings, *, duration_s: float | None, output: Path | None, supervised: bool) -> None:
    """Trace in the foreground until ^C, otherwise as `laggard trace start`: for service managers and containers."""
    _check_traces(settings)
    with session(settings, "trace", supervised=supervised, duration_s=duration_s) as running:
        from laggard.pipeline.cli.trace_run import follow  # noqa: PLC0415 - a refused claim loads no tracer

        follow(settings, running, output, supervised=supervised)


@trace.command(short_help="Stop the tracing that runs here.")
@with_settings
def stop(settings: Settings) -> None:
    """Stop the tracing that runs here, and wait until its requests are published."""
    from laggard.producers.trace.ftrace.remains import remove_stale  # noqa: PLC0415 - other commands load no tracer

    holder = _holder(settings)
    if holder is None:
        removed = remove_stale()
        also = f"; removed {', '.join(removed)}, which a killed tracer had left" if removed else ""
        click.echo(f"No tracing runs here{also}.")
        return
    figures = _figures(settings, holder.pid)
    if figures is not None and figures.supervised:
        raise CommandError(
            f"`laggard up` runs it (process {holder.pid}), and would restart it; remove trace.* from the settings, "
            "and restart `laggard up`",
            BUSY,
        )
    try:
        os.kill(holder.pid, signal.SIGTERM)
    except ProcessLookupError:
        pass
    except PermissionError:
        raise CommandError(f"process {holder.pid} belongs to another user; stop it as that user or as root") from None
    until = time.monotonic() + STOPPING_S
    while (left := _holder(settings)) is not None and left.pid == holder.pid:
        if time.monotonic() > until:
            raise CommandError(
                f"process {holder.pid} does not end; `kill -9 {holder.pid}` ends it, and loses nothing else"
            )
        time.sleep(_CHECK_S)
    click.echo("Stopped." if figures is None else f"Stopped: {summary(_figures(settings, figures.pid) or figures)}.")


@trace.command(short_help="Show the state of the tracing that runs here.")
@with_settings
@json_option
def status(settings: Settings, *, as_json: bool) -> int:
    """Show what is traced, its rates and its cost. The exit code is 3 if nothing is traced."""
    holder = _holder(settings)
    figures = None if holder is None else _figures(settings, holder.pid)
    if as_json:
        click.echo(json.dumps({"running": holder is not None} | ({} if figures is None else asdict(figures))))
    elif holder is None:
        click.echo(f"No tracing runs here; `{to_type(settings, 'trace', 'start', '--help')}` says how to begin.")
        if failure := failure_of(settings[GeneralSettings].state / LOG):
            click.echo(f"The last start failed: {failure}")
    elif figures is None:
        click.echo(f"Process {holder.pid} is starting to trace.")
    else:
        for line in status_lines(figures, time.time()):
            click.echo(line)
    return NO_DATA if holder is None else 0


@trace.command(short_help="Read recordings, LTTng traces and OpenTelemetry spans.")
@with_settings
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the requests as JSON lines, for `laggard replay`.")
def read(settings: Settings, *, paths: tuple[Path, ...], as_json: bool) -> int:
    """Read recordings, and publish the requests in them.

    PATH is a folder recorded by `laggard trace start --output`, a folder of LTTng (CTF), a folder with such folders of
    several hosts, or a file of OpenTelemetry spans (OTLP, as JSON or protobuf). On a bus with newer requests of the
    same service, requests that ended over an hour before the newest become dead letters. With `--json` and `laggard
    replay` no request is late.
    """
    from laggard.pipeline.cli.trace_read import read_all  # noqa: PLC0415 - other commands load no tracer

    return read_all(settings, paths, as_json=as_json)


def _check_traces(settings: Settings) -> None:
    check_host(settings)
    if not traces(settings):
        command = to_type(settings, "trace", "start", "--help")
        raise CommandError(
            f"there is nothing to trace; expected --php, --marker, --uprobe or --port, or settings: `{command}`",
            USAGE,
        )


def _holder(settings: Settings, part: Part = "trace") -> Holder | None:
    try:
        return holder_of(settings[BusSettings].location, settings[GeneralSettings].state, part)
    except OSError as error:
        raise CommandError(f"{error.filename}: {error.strerror}; run this as the user that traces or as root") from None


def _figures(settings: Settings, pid: int) -> Figures | None:
    return read_figures(settings[GeneralSettings].state / STATUS, pid)


def _await_recording(settings: Settings, process: subprocess.Popen[bytes], log: Path) -> Figures:
    """Wait until a process records. Raises `CommandError` with the end of its log if it does not."""
    until = time.monotonic() + STARTING_S
    while True:
        ended = process.poll() is not None
        figures = _figures(settings, process.pid)
        if figures is not None and figures.recording:
            return figures
        if ended:
            raise CommandError(last_words(log), process.returncode if process.returncode > 0 else FAILED)
        if time.monotonic() > until:
            process.kill()
            process.wait()
            raise CommandError(f"it does not record after {STARTING_S:g} s; {log} says: {last_words(log)}")
        time.sleep(_CHECK_S)
