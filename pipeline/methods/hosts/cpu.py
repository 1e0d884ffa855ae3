"""The operator `cpu`: prolonged high use of CPU, or of pressure."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from laggard.operators.cpu import Cpu, Machine
from laggard.pipeline.core.topics import COUNTERS
from laggard.pipeline.methods.hosts.settings import CpuSettings
from laggard.pipeline.operator_table import RANKING
from laggard.pipeline.scoring.wired import Wired
from laggard.pipeline.settings.general import GeneralSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from laggard.operators.cpu.measures import ConditionName
    from laggard.pipeline.settings import Settings


def cpu(settings: Settings) -> Wired:
    """Return the operator as the settings ask for it."""
    own = settings[CpuSettings]
    conditions = cast("tuple[ConditionName, ...]", own.conditions)
    thresholds = thresholds_of(own)
    return Wired(
        "cpu",
        COUNTERS,
        ("process", "host"),
        partial(
            Cpu,
            threshold=thresholds["cpu"],
            duration_s=own.duration,
            conditions=conditions,
            thresholds=thresholds,
            smoothing=own.smoothing,
            window_s=own.window,
        ),
        Cpu.state_version,
        {
            "conditions": ", ".join(conditions),
            "duration_s": own.duration,
            **{f"{name}_threshold": thresholds[name] for name in conditions},
            "smoothing": own.smoothing,
            **({} if own.smoothing == "none" else {"window_s": own.window}),
        },
        # The question of what is slow means what is unusual, and high use may be usual. So this operator answers it
        # only if it is the first one that ranks.
        answers_marks=next(name for name in settings[GeneralSettings].operators if name in RANKING) == "cpu",
    )


def machines(settings: Settings) -> Mapping[ConditionName, Callable[[], Machine]]:
    """By condition that is watched, what makes the machine of it: on the host it is the same one as in the operator."""
    own = settings[CpuSettings]
    thresholds = thresholds_of(own)
    return {
        name: partial(Machine, threshold=thresholds[name], duration_s=own.duration)
        for name in cast("tuple[ConditionName, ...]", own.conditions)
    }


def thresholds_of(settings: CpuSettings) -> Mapping[ConditionName, float]:
    """From which reading on each condition is high."""
    return {
        "cpu": settings.threshold,
        "single_cpu": settings.threshold,
        "spikes": settings.spikes / 86400.0,
        "quota": settings.quota,
        "io_pressure": settings.io_pressure,
        "memory_pressure": settings.memory_pressure,
    }
