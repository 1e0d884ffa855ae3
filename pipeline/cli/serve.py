"""`laggard serve`: only the page, the investigator, with its JSON API."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from laggard.pipeline.cli.exits import BUSY, CommandError
from laggard.pipeline.cli.opening import bus_of, check_existing, topics_of
from laggard.pipeline.cli.options import duration_option, setting_flag, with_settings
from laggard.pipeline.cli.page import asking
from laggard.pipeline.cli.part import session, supervised_option
from laggard.pipeline.investigator.access import Access, page_listen
from laggard.pipeline.investigator.app import create_app
from laggard.pipeline.investigator.guard import MOST_REQUESTS, guarded
from laggard.pipeline.investigator.live import News
from laggard.pipeline.investigator.reading import Reading
from laggard.pipeline.investigator.settings import ServeSettings
from laggard.pipeline.investigator.tokens import token_of
from laggard.pipeline.web.listen import ListenError
from laggard.pipeline.web.server import serve as serve_app
from laggard.pipeline.wiring import asked

if TYPE_CHECKING:
    from laggard.pipeline.settings import Settings

REPORT_S = 1.0


@click.command()
@with_settings
@duration_option
@supervised_option
@setting_flag("--listen", ServeSettings.listen, "HOST:PORT", "The address of the page (setting serve.listen).")
def serve(settings: Settings, duration_s: float | None, supervised: bool) -> None:
    """Serve the page until ^C: it shows what was slow, in a browser.

    It reads the bus, and writes only what a person requests: marks, feedback, wishes for models, and replayed dead
    letters. It needs neither agent nor worker on this machine.
    """
    with session(settings, "serve", supervised=supervised, duration_s=duration_s) as running:
        lacking = ""
        try:
            check_existing(settings)  # the next line would create it
        except CommandError as error:
            lacking = str(error)
        with bus_of(settings) as bus:
            try:
                listen = page_listen(settings)
                reading = Reading(bus, topics_of(settings), settings, asked(settings))
                news = News(reading)
                token = token_of(settings)
                app = guarded(create_app(reading, news), listen, settings, "" if token is None else token.value)
                serving = serve_app(
                    app, listen, running.stop, MOST_REQUESTS, ending=news.close, shared=Access(settings).trusts
                )
            except ListenError as error:
                raise CommandError(str(error), BUSY) from None
            running.claim.write(serving.url)
            running.print_line(f"laggard serves its page at {serving.url}. ^C stops it.")
            if token is not None:
                running.print_line(asking(token, serving.url))
            if lacking:
                running.print_line(f"It is still empty: {lacking}.")
            running.manager.ready()
            running.stop.progress = lambda: True
            running.stop.turns = lambda: serving.turns
            try:
                while True:
                    running.report(url=serving.url)
                    if running.stop.wait(REPORT_S):
                        return
            finally:
                serving.close()
