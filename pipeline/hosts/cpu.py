"""The operator `cpu`: prolonged high use of CPU, or of pressure."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from laggard.operators.cpu import Cpu, Machine
from laggard.pipeline.hosts import RANKING
from laggard.pipeline.scoring.wired import Wired
from laggard.pipeline.topics import COUNTERS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from laggard.operators.cpu.measures import ConditionName
    from laggard.operators.cpu.smoothing import Kind
    from laggard.pipeline.settings import Settings


def cpu(settings: Settings) -> Wired:
    """Return the operator as the settings ask for it."""
    conditions = cast("tuple[ConditionName, ...]", settings.words("cpu.conditions"))
    thresholds = thresholds_of(settings)
    duration_s = settings.seconds("cpu.duration")
    smoothing = cast("Kind", settings.choice("cpu.smoothing"))
    window_s = settings.seconds("cpu.window")
    return Wired(
        "cpu",
        COUNTERS,
        ("process", "host"),
        partial(
            Cpu,
            threshold=thresholds["cpu"],
            duration_s=duration_s,
            conditions=conditions,
            thresholds=thresholds,
            smoothing=smoothing,
            window_s=window_s,
        ),
        Cpu.state_version,
        {
            "conditions": ", ".join(conditions),
            "duration_s": duration_s,
            **{f"{name}_threshold": thresholds[name] for name in conditions},
            "smoothing": smoothing,
            **({} if smoothing == "none" else {"window_s": window_s}),
        },
        # Who is slow asks what is unusual. High use may be the most usual of all: it answers where it is asked first.
        answers_marks=next(name for name in settings.words("operators") if name in RANKING) == "cpu",
    )


def machines(settings: Settings) -> Mapping[ConditionName, Callable[[], Machine]]:
    """By condition that is watched, what makes the machine of it: on the host it is the same one as in the operator."""
    thresholds, duration_s = thresholds_of(settings), settings.seconds("cpu.duration")
    return {
        name: partial(Machine, threshold=thresholds[name], duration_s=duration_s)
        for name in cast("tuple[ConditionName, ...]", settings.words("cpu.conditions"))
    }


def thresholds_of(settings: Settings) -> Mapping[ConditionName, float]:
    """From which reading on each condition is high."""
    return {
        "cpu": settings.ratio("cpu.threshold"),
        "single_cpu": settings.ratio("cpu.threshold"),
        "spikes": settings.per_day("cpu.spikes") / 86400.0,
        "quota": settings.ratio("cpu.quota"),
        "io_pressure": settings.ratio("cpu.io_pressure"),
        "memory_pressure": settings.ratio("cpu.memory_pressure"),
    }
