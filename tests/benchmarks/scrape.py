"""What a scrape of a worker's metrics costs: CPU seconds, bytes and series, with many hosts on it.

    python -m tests.benchmarks.scrape
    python -m tests.benchmarks.scrape --hosts 100 --profile

Each host has frames of its processes, of itself and of its agent, with the names and features that an agent sends. A
few of each operator have learned such frames for a while; every host's newest frames are scored by one of each, and
shown. Then come the scrapes: the first after new frames ranks them, as one that comes less often than the ticks always
does; the next one finds it done. Beside them is what noting a frame costs. Times are of the process's own CPU; take the
best of several rounds.
"""

from __future__ import annotations

import argparse
import cProfile
import gzip
import pstats
import time
from typing import TYPE_CHECKING

import numpy as np
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from laggard.pipeline.alarms.anomalies import Anomalies, OpenAnomaly
from laggard.pipeline.core.bus import Partition
from laggard.pipeline.core.engine.telemetry import Telemetry
from laggard.pipeline.core.records import Frame, Layout, make_layout
from laggard.pipeline.manifest import read_settings
from laggard.pipeline.metrics.exporter import Exporter, metrics_registry
from laggard.pipeline.metrics.exposition import write_metrics
from laggard.pipeline.web.settings import WebSettings
from laggard.pipeline.wiring import wire
from laggard.producers.host.agent import Agent
from tests.pipeline.methods.incidents.joined import incident

if TYPE_CHECKING:
    from collections.abc import Callable

    from laggard.pipeline.core.records import Mark
    from laggard.pipeline.scoring.stream import Operator

OPERATORS, LEARNED = 10, 60
PARTITIONS = 12


def of_agent() -> dict[str, Frame]:
    """By scope, a frame that an agent on this machine sends."""
    sent: list[Frame | Mark] = []
    agent = Agent(sent.extend, "here")
    for _ in range(2):
        agent.tick()
    agent.close()
    return {one.scope: one for one in sent if isinstance(one, Frame)}


class Learned:
    """An operator that has learned frames of one layout, and the next frames of it."""

    def __init__(self, operator: Operator, layout: Layout, seed: int) -> None:
        self.operator, self.layout = operator, layout
        self._draw = np.random.default_rng(seed)
        shape = len(layout.rows), len(layout.features)
        self._base = self._draw.choice([0.0, 0.0, 1.0, 4096.0, 1e6], size=shape)
        self._busy = self._draw.random(shape) < 0.3
        self._ratios = np.array([feature.endswith("_ratio") for feature in layout.features])
        for tick in range(LEARNED):
            operator.learn(1.7e9 + 5.0 * tick, layout, self.values())

    def values(self) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        """Like counters of processes: most are zero or constant, some change all the time, no ratio is high."""
        shape = self._busy.shape
        values = np.where(self._busy, np.round(self._draw.exponential(50.0, shape)), self._base)
        return np.where(self._ratios, 1e-3 * np.minimum(values, 100.0), values)


class Page:
    """An exporter with many hosts on it, and what is shown of them.

    Args:
        hosts: how many.
        processes: how many each has.

    """

    def __init__(self, hosts: int, processes: int) -> None:
        settings = read_settings(environ={}, flags=[])
        self.wired = wire(settings)
        self.top_rows = settings[WebSettings].top_rows
        telemetry = Telemetry()
        self.exporter = Exporter(telemetry, self.top_rows, {self.wired[0].name: 1.0})
        self.registry = metrics_registry(self.exporter)
        for partition in range(PARTITIONS):
            for wired in self.wired:
                task = telemetry.task(wired.name, Partition("laggard.counters", partition))
                for seconds in (0.01, 0.02, 0.3):
                    task.latency_seconds.add_record("host-1", 1.7e9, seconds)
        sent = of_agent()
        self._own = sent["agent"]
        self._hosts = hosts
        names = [f"process-{number}" for number in range(processes)]
        rows = [f"{name}[{number}@1]" for number, name in enumerate(names)]
        layouts = {"process": make_layout(rows, names, sent["process"].layout.features), "host": sent["host"].layout}
        self._learned = [
            [
                (wired.name, scope, Learned(wired.make(), layouts[scope], number))
                for wired in self.wired
                for scope in layouts
            ]
            for number in range(OPERATORS)
        ]

    def note(self, tick: int) -> float:
        """Show a new frame of each stream; gives what showing alone costs, in CPU seconds a frame."""
        ts = 1.7e9 + 5.0 * (LEARNED + tick)
        # One host in a hundred has an anomaly, and an incident of it.
        opened = OpenAnomaly("0" * 36, ts, True, "process-1[1@1]", "process-1", "threads", 5.0, 1.0, 1.0)
        shown = []
        for number in range(self._hosts):
            host = f"host-{number}"
            for operator, scope, one in self._learned[number % OPERATORS]:
                frame = Frame("host", host, scope, ts, tick, one.layout, one.values())
                scores = one.operator.score(ts, one.layout, frame.values)
                anomalies = Anomalies(1, (opened,) if number % 100 == 0 and scope == "process" else ())
                shown.append((operator, frame, scores, anomalies))
            if number % 100 == 0:
                self.exporter.joined("host", host, [incident(number, ts, host=host)], int(tick == 0))
            self.exporter.received(Frame("host", host, "agent", ts, tick, self._own.layout, self._own.values))

        def show() -> None:
            for each in shown:
                self.exporter.scored(*each)

        show()
        return timed(show) / len(shown)  # the second time, or the last tick's frames are given back within

    def scrape(self) -> bytes:
        """As Prometheus does."""
        return write_metrics(self.registry.collect(), open_metrics=True)


def timed(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--profile", action="store_true", help="where the first scrape spends its time")
    given = parser.parse_args()
    page = Page(given.hosts, given.processes)
    works: dict[str, Callable[[], object]] = {
        "a scrape after new frames": page.scrape,
        "a scrape once more": page.scrape,
        "  of it: to collect": lambda: list(page.registry.collect()),
        "  as prometheus_client writes it": lambda: generate_openmetrics(page.registry),
        "to compress it": lambda: gzip.compress(text, compresslevel=1),
    }
    text = b""
    noting: list[float] = []
    times: dict[str, list[float]] = {name: [] for name in works}
    for number in range(given.rounds):
        noting.append(page.note(number))
        if given.profile:
            profile = cProfile.Profile()
            profile.runcall(page.scrape)
            pstats.Stats(profile).sort_stats("tottime").print_stats(20)
            return
        for name, work in works.items():
            times[name].append(timed(work))
            text = text or page.scrape()
    series = sum(not line.startswith(b"#") for line in text.splitlines())
    compressed = len(gzip.compress(text, compresslevel=1))
    print(f"{given.hosts:,} hosts of {given.processes} processes, web.top_rows {page.top_rows}:")
    print(f"{series:,} series, {len(text):,} bytes, compressed {compressed:,}")
    print(f"{'to show a frame':36}{min(noting) * 1e6:8.2f} us   {[round(each * 1e6, 2) for each in noting]}")
    for name, each in times.items():
        print(f"{name:36}{min(each):8.3f} s    {[round(one, 3) for one in each]}")


if __name__ == "__main__":
    main()
