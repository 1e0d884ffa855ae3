"""Metrics of instances as frames: one for each host of an application, or one for all members of a pool.

Pure. Each instance is a row, and each series a feature with the name of Prometheus, without `instance` and `job`:
`node_load1`, `node_filesystem_avail_bytes{mountpoint="/"}`. Counters become rates, which their names show:
`node_cpu_seconds_total` becomes `node_cpu_seconds_per_s{cpu="0",mode="idle"}`. Buckets of histograms, creation times of
series, and metrics that only hold labels (`_info`) are left out.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from laggard.pipeline.core.records import Frame, make_layout

if TYPE_CHECKING:
    from collections.abc import Mapping, Set

    from laggard.pipeline.core.records.frame import KeyedBy
    from laggard.producers.sources.prometheus.page import Series

LEFT_OUT: Final = ("_bucket", "_created", "_info")
"""Suffixes of names that are not features."""

PLACES: Final = frozenset({"instance", "job"})
"""Labels of the origin of a series."""

_MAX_FEATURES: Final = 10_000
_MAX_CELLS: Final = 4_000_000
_MAX_NAME: Final = 1_024
_MAX_KEY: Final = 253


@dataclass(frozen=True, slots=True)
class InstanceFrames:
    """The frames of series.

    Attributes:
        frames: one for each instance, in the order of their names; at most one for a pool.
        unusable: the number of series left out: without a valid instance, beyond a bound, or duplicates. A feature for
            which the frame of a pool has no room counts as one.
        reason: the first reason.

    """

    frames: tuple[Frame, ...]
    unusable: int
    reason: str


def is_counter(one: Series, counters: Set[str], names: Set[str]) -> bool:
    """Return whether a series only grows: by declaration, by name, or as a part of a histogram or summary.

    Args:
        one: the series.
        counters: names of metrics that are counters by declaration.
        names: all names that are present.

    """
    name = one.name
    if name.endswith("_total") or name in counters:
        return True
    base, _, end = name.rpartition("_")
    return end in {"count", "sum", "bucket"} and f"{base}_count" in names and f"{base}_sum" in names


def instance_of(text: str, *, ports: bool) -> str:
    """Return the host of an instance: `web-1` of `web-1:9100`, or all of it if ports count."""
    host, colon, port = text.rpartition(":")
    return host.strip("[]") if colon and port.isdigit() and not ports and host else text


def feature_of(one: Series, *, rate: bool) -> str:
    """Return the name of a series as a feature."""
    name = f"{one.name.removesuffix('_total')}_per_s" if rate else one.name
    labels = ",".join(
        f"{label}={json.dumps(value, ensure_ascii=False)}" for label, value in one.labels if label not in PLACES
    )
    found = f"{name}{{{labels}}}" if labels else name
    return found if found.isprintable() else "".join(each if each.isprintable() else "\ufffd" for each in found)


def instance_frames(
    key: str,
    ts: float,
    gauges: Mapping[Series, float],
    rates: Mapping[Series, float],
    *,
    keyed_by: KeyedBy = "application",
    ports: bool = False,
    max_series: int = 50_000,
) -> InstanceFrames:
    """Return the frames at `ts` of all series that have a label `instance`.

    Args:
        key: their key.
        ts: their time, in seconds since the Unix epoch.
        gauges: the values of gauges by series.
        rates: the rates of counters per second, by series; NaN if not known yet.
        keyed_by: whether instances are hosts of an application or members of a pool.
        ports: whether ports count.
        max_series: the most series; those with the last names are left out.

    """
    rows: dict[str, dict[str, float]] = {}
    unusable, reason = 0, ""
    series = [(one, value, False) for one, value in gauges.items()]
    series += [(one, value, True) for one, value in rates.items()]
    used = 0
    for one, value, rate in sorted(series, key=lambda each: each[0]):
        if one.name.endswith(LEFT_OUT):
            continue
        instance = instance_of(one.label("instance"), ports=ports)
        if keyed_by == "pool":
            instance = instance.replace("/", ":")  # a slash separates levels
        feature = feature_of(one, rate=rate)
        wrong = ""
        if not 0 < len(instance) <= _MAX_KEY or not instance.isprintable():
            wrong = "expected a label instance with the name of a host"
        elif len(feature) > _MAX_NAME:
            wrong = f"expected labels of at most {_MAX_NAME:,} characters together"
        elif feature in (row := rows.get(instance, {})):
            wrong = f"{instance} has two series of this name; expected one (the setting ports separates them by port)"
        elif used >= max_series or len(row) >= _MAX_FEATURES:
            wrong = f"expected at most {max_series:,} series (max_series), and {_MAX_FEATURES:,} of one host"
        if wrong:
            reason = reason or f"{feature[:120]}: {wrong}"
            unusable += 1
            continue
        rows.setdefault(instance, {})[feature] = value if math.isfinite(value) else math.nan
        used += 1
    if keyed_by == "application":
        return InstanceFrames(tuple(_frame(key, ts, row, rows[row]) for row in sorted(rows)), unusable, reason)
    if not rows:
        return InstanceFrames((), unusable, reason)
    frame, left_out = _pool_frame(key, ts, rows)
    if left_out:
        reason = reason or f"all instances together: expected at most {_MAX_FEATURES:,} features"
    return InstanceFrames((frame,), unusable + left_out, reason)


def _pool_frame(pool: str, ts: float, rows: Mapping[str, Mapping[str, float]]) -> tuple[Frame, int]:
    """Return one frame of all instances, and the number of its missing features: those of the fewest instances."""
    counts = Counter(feature for row in rows.values() for feature in row)
    most = min(_MAX_FEATURES, _MAX_CELLS // len(rows))
    features = sorted(sorted(counts, key=lambda feature: (-counts[feature], feature))[:most])
    members = sorted(rows)
    values = np.array([[rows[member].get(feature, math.nan) for feature in features] for member in members])
    values.setflags(write=False)
    layout = make_layout(members, members, features)
    return Frame("pool", pool, "member", ts, int(ts * 1000), layout, values), len(counts) - len(features)


def _frame(application: str, ts: float, row: str, features: Mapping[str, float]) -> Frame:
    values = np.array([list(features.values())], np.float64)
    values.setflags(write=False)
    layout = make_layout((row,), (row,), features)
    return Frame("application", application, "host", ts, int(ts * 1000), layout, values, (row,))
