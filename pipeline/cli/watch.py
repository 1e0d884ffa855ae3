"""`laggard watch`: what is slow, and the culprits, live in the terminal, or one line per tick in a pipe."""

from __future__ import annotations

import math
import os
import select
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

from laggard.pipeline.cli.opening import existing_bus, topics_of
from laggard.pipeline.cli.options import features_option, rows_option, with_settings
from laggard.pipeline.cli.pages import LivePage, console_of, tick_line
from laggard.pipeline.cli.why import choose_host
from laggard.pipeline.core.bus import BusUnavailable
from laggard.pipeline.core.records.outputs import RankingOutput, write_output
from laggard.pipeline.history.report import plain_findings
from laggard.pipeline.history.watch import Watch
from laggard.pipeline.history.why import History
from laggard.pipeline.settings.general import GeneralSettings
from laggard.pipeline.wiring import asked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from laggard.pipeline.settings import Settings

POLL_S: Final = 0.25
"""The time between two checks for a new tick, in seconds."""

REDRAW_S: Final = 1.0
"""Without a tick for this time, in seconds, the page is drawn for the terminal's size and the last frame's age."""

ENDS: Final = (b"q", b"Q", b"\x04", b"")
"""The keys that end the page; the empty one is the end of the input."""


@click.command()
@with_settings
@click.option("--host", help="The host.  [default: this one]")
@rows_option
@features_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per tick, for programs.")
def watch(settings: Settings, *, host: str | None, rows: int, features: int, as_json: bool) -> None:
    """Show what is slow and the culprits, live, until q or ^C. In a pipe, print one line per tick."""
    with existing_bus(settings) as bus:
        history = History(bus, topics_of(settings), asked(settings))
        watched = Watch(history, choose_host(settings, history, host))
        try:
            if as_json or not sys.stdout.isatty():
                _write_lines(watched, rows, features, as_json=as_json)
            else:
                _show_live(watched, rows, features, here=watched.host == settings[GeneralSettings].host)
        except KeyboardInterrupt:
            return


def _write_lines(watched: Watch, rows: int, features: int, *, as_json: bool) -> None:
    """Write one line per tick, forever."""
    new = True
    while True:
        if new and (answer := watched.answer(rows, features)):
            if as_json:
                click.echo(
                    write_output(
                        RankingOutput.of(answer.ts, answer.host, "", answer.ranking, " ".join(plain_findings(answer)))
                    )
                )
            else:
                click.echo(tick_line(answer))
        new = _advance(watched)
        if not new:
            time.sleep(POLL_S)


def _show_live(watched: Watch, rows: int, features: int, *, here: bool) -> None:
    """Draw the page at each tick, until a key ends it."""
    from rich.live import Live  # noqa: PLC0415

    console = console_of(sys.stdout)
    page = LivePage(watched, rows, features, here=here)
    with _single_keys() as pressed, Live(console=console, screen=True, auto_refresh=False) as live:
        drawn = -math.inf
        while True:
            now = time.monotonic()
            if _advance(watched) or now - drawn >= REDRAW_S:
                live.update(page.draw(console, time.time()), refresh=True)
                drawn = now
            if pressed():
                return


def _advance(watched: Watch) -> bool:
    """Read new records, and return whether there is a newer frame; false while the bus is unavailable."""
    try:
        return watched.advance()
    except BusUnavailable:
        return False


@contextmanager
def _single_keys() -> Iterator[Callable[[], bool]]:
    """Read keys without Enter. Yields a function that waits `POLL_S` for a key, and returns whether that ends it."""
    if not sys.stdin.isatty():
        yield _nobody
        return
    import termios  # noqa: PLC0415 - only where there is a keyboard
    import tty  # noqa: PLC0415

    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)

    def pressed() -> bool:
        ready, _, _ = select.select([keyboard], [], [], POLL_S)
        return bool(ready) and os.read(keyboard, 1) in ENDS

    tty.setcbreak(keyboard)
    try:
        yield pressed
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


def _nobody() -> bool:
    """Wait in place of a keyboard, if there is none."""
    time.sleep(POLL_S)
    return False
