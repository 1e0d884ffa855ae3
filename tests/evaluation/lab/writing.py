"""A recorded scenario as JSON lines that laggard reads, with as many metrics as the paper had."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from laggard.pipeline.core.records import Frame, make_layout
from laggard.pipeline.core.records.frame import UNNUMBERED
from laggard.pipeline.core.records.json_lines import write_line
from laggard.producers.host.processes import FEATURES
from tests.evaluation.lab.padding import Padding
from tests.evaluation.lab.stage import PERFORMANCE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TextIO

    from laggard.pipeline.core.records import Layout
    from tests.evaluation.lab.stage import Interval

APPLICATION: Final = "shop"
METRICS: Final = 7522
"""As many as the paper had, those of the application's performance among them."""


@dataclass(frozen=True, slots=True)
class Names:
    """What was ever recorded, by host.

    Attributes:
        features: of the host's row.
        processes: names of its processes, each with the agent's `FEATURES`.

    """

    features: dict[str, list[str]]
    processes: dict[str, list[str]]

    @classmethod
    def of(cls, hosts: Sequence[str], intervals: Sequence[Interval]) -> Names:
        """All that any interval has."""
        return cls(
            {host: list(dict.fromkeys(name for each in intervals for name in each.hosts[host])) for host in hosts},
            {host: sorted({name for each in intervals for name in each.processes[host]}) for host in hosts},
        )

    @property
    def metrics(self) -> int:
        """How many these are."""
        return sum(map(len, self.features.values())) + len(FEATURES) * sum(map(len, self.processes.values()))


def write_frames(
    file: TextIO, hosts: Sequence[str], intervals: Sequence[Interval], interval_s: float, seed: int
) -> int:
    """Write all intervals. Returns how many of the metrics were recorded; the rest is padding."""
    names = Names.of(hosts, intervals)
    padding = Padding(hosts, METRICS - len(PERFORMANCE) - names.metrics, interval_s, seed)
    missing = np.full(len(FEATURES), np.nan)
    remembered: dict[str, Layout] = {}

    def write(
        scope: str, ts: float, rows: Mapping[str, Sequence[float]], features: Sequence[str], host: str = ""
    ) -> None:
        layout = remembered.get(f"{scope} {host}")
        if layout is None:
            layout = remembered[f"{scope} {host}"] = make_layout(rows, rows, features)
        values = np.array(list(rows.values()), np.float64)
        served_by = (host,) if host else ()
        frame = Frame("application", APPLICATION, scope, ts, UNNUMBERED, layout, values, served_by)
        file.write(write_line(frame) + "\n")

    for each in intervals:
        for host in hosts:
            simulated, sensors = padding.next(host)
            own = dict.fromkeys(names.features[host], math.nan) | each.hosts[host] | sensors
            write("host", each.end, {host: list(own.values())}, list(own), host)
            processes = dict.fromkeys(names.processes[host], missing) | dict(each.processes[host]) | simulated
            rows = {f"{host}/{name}": list(values) for name, values in processes.items()}
            write("process", each.end, rows, FEATURES, host)
        write("performance", each.end, {APPLICATION: list(each.performance.values())}, PERFORMANCE)
    return names.metrics
