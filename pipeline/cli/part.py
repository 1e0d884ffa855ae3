"""The common base of the parts as processes: a claim, a way to stop, and reports to the supervisor."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from laggard.pipeline.cli.exits import BUSY, FAILED, INTERRUPTED, CommandError
from laggard.pipeline.core.claims import Claim, Claimed
from laggard.pipeline.core.notify import Heartbeat, Notifier
from laggard.pipeline.core.own import take_name
from laggard.pipeline.core.supervisor import STOPPING_S
from laggard.pipeline.settings.general import BusSettings, GeneralSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from laggard.pipeline.core.claims import Part
    from laggard.pipeline.settings import Settings

_STDIN = 0
_STDOUT = 1

_STOPPING = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}

supervised_option = click.option("--supervised", is_flag=True, hidden=True)
"""The option with which `laggard up` starts a part: see `laggard.pipeline.core.supervisor`."""


class Session:
    """A running part.

    Attributes:
        stop: set when the part must stop: at ^C, SIGTERM, SIGHUP, the end of its time, or the end of its supervisor.
        claim: the claim of this part on its bus.
        supervised: whether `laggard up` started it.
        manager: the service manager that started it, if any; for a supervised part, its supervisor.

    """

    def __init__(self, claim: Claim, *, supervised: bool) -> None:
        self.manager = Notifier(os.environ)
        if supervised:
            # It names a descriptor of this process. In its child processes that number is another descriptor.
            os.environ.pop("NOTIFY_SOCKET", None)
        self.stop = Heartbeat(self.manager)
        self.claim = claim
        self.supervised = supervised

    def report(self, **fields: Any) -> None:
        """Report to the supervisor of the part, if any. The report is dropped, without a wait, if it does not read."""
        if self.supervised:
            with contextlib.suppress(BlockingIOError, BrokenPipeError):
                os.write(_STDOUT, json.dumps(fields).encode() + b"\n")

    def print_line(self, line: str) -> None:
        """Print a line for a person who started the part alone."""
        if not self.supervised:
            print(line, flush=True)  # noqa: T201 - the command's output


@contextlib.contextmanager
def session(settings: Settings, part: Part, *, supervised: bool, duration_s: float | None) -> Iterator[Session]:
    """Claim the part while the context lasts. Give this process its name, and handle signals from now on.

    Raises:
        CommandError: the part already runs on this bus, or cannot be claimed.

    """
    with claimed(settings, part, supervised=supervised) as claim:
        take_name(part)
        running = Session(claim, supervised=supervised)
        logging.basicConfig(format="%(message)s", level=logging.WARNING, stream=sys.stderr)
        handle_signals(running.stop)
        if supervised:
            os.set_blocking(_STDOUT, False)
            _start("supervisor", _await_supervisor, running.stop)
        if duration_s is not None:
            timer = threading.Timer(duration_s, running.stop.set)
            timer.daemon = True
            timer.start()
        yield running


@contextlib.contextmanager
def claimed(settings: Settings, part: Part, *, supervised: bool = False) -> Iterator[Claim]:
    """Claim a part while the context lasts. Raises `CommandError` if that is impossible."""
    try:
        claim = Claim(settings[BusSettings].location, settings[GeneralSettings].state, part, supervised=supervised)
    except Claimed as error:
        raise CommandError(str(error), BUSY) from None
    except OSError as error:
        raise CommandError(
            f"{error.filename}: {error.strerror}; set state or bus.location to a place where you may write", FAILED
        ) from None
    with claim:
        yield claim


def handle_signals(stop: threading.Event) -> None:
    """Set `stop` at the first SIGINT, SIGTERM or SIGHUP from now on; a ^C after it ends the process at once."""
    # A handler must not set `stop`: it runs in the main thread, perhaps while that holds the lock of `stop`. A signal
    # mask would not do: threads of numpy that started earlier do not have it, and would end the process.
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    signal.set_wakeup_fd(writer.detach(), warn_on_full_buffer=False)
    for number in _STOPPING:
        signal.signal(number, lambda *_: None)
    _start("signals", partial(_await_signals, reader), stop)


def _start(name: str, wait: Callable[[threading.Event], None], stop: threading.Event) -> None:
    threading.Thread(target=wait, args=(stop,), name=name, daemon=True).start()


def _await_signals(reader: socket.socket, stop: threading.Event) -> None:
    """Stop at the first signal; at a ^C after it, exit without a clean stop."""
    while reader.recv(1)[0] not in _STOPPING:
        pass
    stop.set()
    while reader.recv(1)[0] != signal.SIGINT:
        pass
    os._exit(INTERRUPTED)


def _await_supervisor(stop: threading.Event) -> None:
    """Stop when standard input ends: the supervisor, which holds its other end, has ended."""
    while os.read(_STDIN, 4096):
        pass
    stop.set()
    time.sleep(STOPPING_S)
    os._exit(FAILED)
