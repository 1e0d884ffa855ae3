"""`laggard work`: only the worker, with operators and HTTP port in one process."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import click

from laggard.pipeline.cli.exits import BUSY, CommandError
from laggard.pipeline.cli.opening import bus_of, topics_of
from laggard.pipeline.cli.options import duration_option, with_settings
from laggard.pipeline.cli.part import session, supervised_option
from laggard.pipeline.core.bus import Outgoing
from laggard.pipeline.core.engine.runner import Runner
from laggard.pipeline.core.engine.telemetry import Telemetry
from laggard.pipeline.core.records import Mark, encode
from laggard.pipeline.core.topics import ANOMALIES, COUNTERS
from laggard.pipeline.investigator.tokens import token_of
from laggard.pipeline.methods.applications.stage import RegressionStage
from laggard.pipeline.metrics.exporter import Exporter, metrics_registry
from laggard.pipeline.scoring.observers import Observer
from laggard.pipeline.scoring.wired import Wired
from laggard.pipeline.settings.general import BusSettings, GeneralSettings, SnapshotSettings, WorkerSettings
from laggard.pipeline.web.app import create_app
from laggard.pipeline.web.listen import ListenError, worker_listen
from laggard.pipeline.web.server import serve
from laggard.pipeline.web.settings import WebSettings
from laggard.pipeline.wiring import stages

if TYPE_CHECKING:
    from laggard.operators.contract import Scores
    from laggard.pipeline.alarms.anomalies import Anomalies
    from laggard.pipeline.cli.part import Session
    from laggard.pipeline.core.notify import Notifier
    from laggard.pipeline.core.records import Frame
    from laggard.pipeline.settings import Settings

REPORT_S = 1.0


@click.command()
@with_settings
@duration_option
@supervised_option
def work(settings: Settings, duration_s: float | None, supervised: bool) -> None:
    """Run the operators until ^C, with metrics and marks over HTTP."""
    with session(settings, "work", supervised=supervised, duration_s=duration_s) as running:
        host, topics = settings[GeneralSettings].host, topics_of(settings)
        telemetry = Telemetry()
        progress = Progress(host)
        with bus_of(settings) as bus:
            run = stages(settings)
            operators = [each for each in run if isinstance(each, Wired | RegressionStage)]
            rates = {each.name: each.parameters.get("false_alarms_per_day") for each in operators}
            budgets = {name: float(rate) for name, rate in rates.items() if rate is not None}
            exporter = Exporter(telemetry, settings[WebSettings].top_rows, budgets)
            runner = Runner(
                bus,
                run,
                topics,
                snapshot_records=settings[SnapshotSettings].records,
                standby=settings[WorkerSettings].standby,
                observers=(exporter, progress),
                telemetry=telemetry,
            )

            def append(mark: Mark) -> None:
                bus.append([Outgoing(topics.name(COUNTERS), mark.host, encode(mark), mark.ts)])

            try:
                listen = worker_listen(settings)
                # If root watches, users who may not see the data may not set marks either.
                token = token_of(settings) if os.geteuid() == 0 and not listen.token else None
                app = create_app(
                    listen=listen,
                    registry=metrics_registry(exporter),
                    recovering=runner.recovering,
                    append=append,
                    host=host,
                    page_token="" if token is None else token.value,
                )
                serving = serve(app, listen, running.stop)
            except ListenError as error:
                raise CommandError(str(error), BUSY) from None
            running.claim.write(serving.url)
            running.print_line(
                f"laggard work runs {', '.join(settings[GeneralSettings].operators)}: {serving.url}/metrics. It reads "
                f"{', '.join(sorted({topics.name(each.topic) for each in run if each.topic != ANOMALIES}))} and writes "
                f"{', '.join(sorted({topics.name(topic) for each in run for topic in each.writes}))} on "
                f"{settings[BusSettings].location}. ^C stops it."
            )
            reporter = threading.Thread(
                target=progress.report, args=(running, runner, serving.url), name="reports", daemon=True
            )
            if supervised:
                reporter.start()
            running.stop.progress = lambda: _is_up(running.manager, runner)
            try:
                runner.run(running.stop)
            finally:
                running.stop.set()
                serving.close()


def _is_up(manager: Notifier, runner: Runner) -> bool:
    """Return whether all states are restored; report to the service manager how many records are left."""
    left = runner.recovering()
    manager.status(f"recovering, {sum(left.values())} records left" if left else "working")
    return not left


class Progress(Observer):
    """Stores the newest scores of one host, for the status line of the supervisor."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._scores: dict[tuple[str, str], Scores] = {}

    def scored(self, operator: str, frame: Frame, scores: Scores, anomalies: Anomalies) -> None:  # noqa: ARG002
        """Store the scores of an operator."""
        if (frame.keyed_by, frame.key) == ("host", self._host):
            self._scores[operator, frame.scope] = scores

    def report(self, running: Session, runner: Runner, url: str) -> None:
        """Report at intervals of `REPORT_S` until the part stops."""
        while True:
            scores = list(self._scores.values())
            running.report(
                url=url,
                recovering=sum(runner.recovering().values()),
                score=max((scores.score for scores in scores), default=None),
                young=any(scores.ranking(1, 1).young for scores in scores),
            )
            if running.stop.wait(REPORT_S):
                return
