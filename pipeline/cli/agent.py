"""`laggard agent`: only the agent."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import click

from laggard.pipeline.cli.opening import bus_of
from laggard.pipeline.cli.options import duration_option, setting_flag, with_settings
from laggard.pipeline.cli.part import session, supervised_option
from laggard.pipeline.cli.publishing import Publishers, check_host, publisher_of
from laggard.pipeline.core.records import Frame, Mark
from laggard.pipeline.core.topics import COUNTERS, DIAGNOSES, POOLS
from laggard.pipeline.explaining.units import counted
from laggard.pipeline.methods.diagnoses.diagnosing import Diagnosing
from laggard.pipeline.methods.diagnoses.triggers import CONDITIONS
from laggard.pipeline.methods.diagnoses.unfinished import Unfinished
from laggard.pipeline.methods.hosts.cpu import machines
from laggard.pipeline.methods.pools.discovery import pools_here
from laggard.pipeline.settings.general import BusSettings, GeneralSettings
from laggard.pipeline.settings.producing import AgentSettings, DiagnosisSettings
from laggard.producers.host.agent import Agent
from laggard.producers.system.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.pipeline.cli.publishing import Publisher
    from laggard.pipeline.core.records.diagnosis import Diagnosis
    from laggard.pipeline.settings import Settings

SPOOL: Final = "spool.db"
"""The spool of counters, in the directory `state`."""

DIAGNOSES_SPOOL: Final = "spool-diagnoses.db"
"""The spool of diagnoses, a file of its own: a missing or unwritable topic does not delay other records."""

DIAGNOSES_BYTES: Final = 64 << 20
"""The limit of its size: some hundreds of diagnoses."""

POOLS_SPOOL: Final = "spool-pools.db"
"""The spool of pools, in the same directory."""

POOLS_BYTES: Final = 64 << 20
"""The limit of its size."""

UNFINISHED: Final = "diagnoses.jsonl"
"""The file of open diagnoses, in the same directory."""


@click.command()
@with_settings
@duration_option
@setting_flag("--interval", AgentSettings.interval, "DURATION", "Time between ticks (setting agent.interval).")
@supervised_option
def agent(settings: Settings, duration_s: float | None, supervised: bool) -> None:
    """Publish this machine's counters until ^C: those of every process, and of the host itself."""
    host, interval_s = settings[GeneralSettings].host, settings[AgentSettings].interval
    check_host(settings)
    with session(settings, "agent", supervised=supervised, duration_s=duration_s) as running, ExitStack() as stack:
        bus = stack.enter_context(bus_of(settings))
        spool_bytes = settings[AgentSettings].spool_bytes
        publisher = publisher_of(settings, bus, COUNTERS, stack, spool=SPOOL, spool_bytes=spool_bytes)
        every, watch, of_pools = [publisher], None, None
        if (pools := pools_here(settings, Clock())) is not None:
            of_pools = publisher_of(settings, bus, POOLS, stack, spool=POOLS_SPOOL, spool_bytes=POOLS_BYTES)
            every.append(of_pools)
        if settings[DiagnosisSettings].enabled:
            diagnoses = publisher_of(
                settings, bus, DIAGNOSES, stack, spool=DIAGNOSES_SPOOL, spool_bytes=DIAGNOSES_BYTES
            )
            every.append(diagnoses)
            watch = _watch(settings, host, diagnoses)
            watch.start()
            stack.callback(watch.close)
        publishers, ticks = Publishers(*every), 0

        def publish(frames: Sequence[Frame | Mark]) -> None:
            nonlocal ticks
            of_host = sum(isinstance(frame, Mark) or frame.keyed_by == "host" for frame in frames)
            publisher.publish(frames[:of_host])
            if of_pools is not None and len(frames) > of_host:
                of_pools.publish(frames[of_host:])
            ticks += 1
            rows = sum(len(frame.values) for frame in frames if isinstance(frame, Frame) and frame.scope == "process")
            running.report(ticks=ticks, rows=rows)
            running.manager.status(
                f"{counted(ticks, 'tick')}, {rows} processes, {counted(publishers.waiting, 'record')} waiting"
            )

        command_lines = settings[AgentSettings].command_lines
        counters = Agent(
            publish, host, interval_s, command_lines=command_lines, queue=publishers, watch=watch, pools=pools
        )
        location = settings[BusSettings].location
        running.print_line(
            f"laggard agent publishes the counters of {host} every {interval_s:g} s to {location}. ^C stops it."
        )
        running.stop.progress = lambda: ticks > 0
        counters.run(running.stop)


def _watch(settings: Settings, host: str, publisher: Publisher) -> Diagnosing:
    """Return the diagnosing of processes while something is wrong; not yet started."""

    def publish(diagnosis: Diagnosis) -> None:
        publisher.publish([diagnosis])

    method = settings[DiagnosisSettings].method
    return Diagnosing(
        publish,
        host,
        {name: make() for name, make in machines(settings).items() if name in CONDITIONS},
        Unfinished(settings[GeneralSettings].state / UNFINISHED),
        budget_ratio=settings[DiagnosisSettings].budget,
        methods=None if method == "auto" else [] if method == "proc" else [method],
        command_lines=settings[AgentSettings].command_lines,
    )
