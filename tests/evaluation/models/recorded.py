"""Recordings of the lab as the operator sees them: one row of all metrics an interval."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from laggard.pipeline.core.records import Frame
from laggard.pipeline.core.records.json_lines import SCOPES, read_line
from laggard.pipeline.explaining.counters import RESOLUTION
from laggard.pipeline.methods.applications.resources import trait
from tests.evaluation.models.queueing import Recording

if TYPE_CHECKING:
    from pathlib import Path


def read(path: Path) -> tuple[str, Recording]:
    """A recording and its scenario's name.

    Raises:
        OSError: the recording, or what is true of it, is not there.
        RecordError: a line is none.

    """
    truth = json.loads(path.with_suffix(".truth.json").read_text())
    columns: dict[str, int] = {}
    samples: list[dict[int, float]] = []
    performance: list[dict[str, float]] = []
    metrics: dict[int, float] = {}
    with path.open() as file:
        for number, line in enumerate(file, 1):
            frame = read_line(line, f"{path}:{number}")
            if not isinstance(frame, Frame):
                continue
            layout = frame.layout
            if frame.scope == SCOPES["application"]:
                performance.append(dict(zip(layout.features, frame.values[0].tolist(), strict=True)))
                samples.append(metrics)
                metrics = {}
                continue
            for row, values in zip(layout.rows, frame.values, strict=True):
                for feature, value in zip(layout.features, values.tolist(), strict=True):
                    metrics[columns.setdefault(f"{row}:{feature}", len(columns))] = value
    values = np.full((len(samples), len(columns)), np.nan)
    for at, sample in enumerate(samples):
        values[at, list(sample)] = list(sample.values())
    ids = tuple(columns)
    names = dict.fromkeys(name for each in performance for name in each)
    intervals = truth["intervals"]
    bottleneck = truth["bottlenecks"][0]
    return truth["scenario"], Recording(
        ids,
        values,
        {name: np.array([each.get(name, np.nan) for each in performance]) for name in names},
        truth["interval_s"],
        np.array([bool(each["resource"]) for each in intervals]),
        bottleneck["host"],
        bottleneck["resource"],
        {name: trait(name) for name in ids},
        {},
        RESOLUTION,
    )
