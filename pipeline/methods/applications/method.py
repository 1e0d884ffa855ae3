"""The performance models of applications, and the re-keying of the counters of their hosts."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

from laggard.operators.regression import Regression
from laggard.pipeline.core.extras import installing
from laggard.pipeline.explaining.counters import RESOLUTION
from laggard.pipeline.methods.applications.resources import trait
from laggard.pipeline.methods.applications.serving import ServedBySettings, Serving
from laggard.pipeline.methods.applications.settings import ApplicationsSettings, RegressionSettings
from laggard.pipeline.methods.applications.stage import RegressionStage
from laggard.pipeline.settings import SettingError

if TYPE_CHECKING:
    from laggard.pipeline.core.engine.stage import Stage
    from laggard.pipeline.methods.applications.serving import Served
    from laggard.pipeline.settings import Settings


def served(settings: Settings) -> Served | None:
    """Return the assignment of hosts to applications by the settings; None without any."""
    own = settings[ApplicationsSettings]
    hosts = {name: str(patterns) for name, patterns in own.hosts.items()}
    return ServedBySettings(hosts, own.pattern) if hosts or own.pattern else None


def regression_stage(settings: Settings) -> RegressionStage:
    """Return the stage that builds performance models, whether or not a worker with these settings runs it.

    Raises `SettingError` if the kind of model needs scikit-learn, and it is not installed.
    """
    own = settings[RegressionSettings]
    if own.kind != "linear" and find_spec("sklearn") is None:
        needs = f"models of this kind need scikit-learn, which is not installed; {installing('models')}"
        raise SettingError([f"{settings.place(RegressionSettings.kind)}: regression.kind is {own.kind}: {needs}"])
    return RegressionStage(
        partial(
            Regression,
            performance=own.performance,
            candidates=own.candidates,
            window=own.window,
            minimum_gain=own.minimum_gain,
            significance=own.significance,
            kind=own.kind,
            criterion=own.criterion,
            method=own.method,
            trait=trait,
            resolution=RESOLUTION,
            false_alarms_per_day=own.false_alarms,
            false_rebuilds_per_day=own.false_rebuilds,
        ),
        Regression.state_version,
        {
            "performance": ", ".join(own.performance),
            "candidates": own.candidates,
            "window": own.window,
            "minimum_gain": own.minimum_gain,
            "kind": own.kind,
            "method": own.method,
            **({"significance": own.significance, "criterion": own.criterion} if own.method == "published" else {}),
            "false_alarms_per_day": own.false_alarms,
            "false_rebuilds_per_day": own.false_rebuilds,
        },
    )


def stages(settings: Settings, serving: Served | None) -> tuple[Stage, ...]:
    """Return the stage of models, after the one that re-keys counters if hosts are assigned to applications."""
    return (regression_stage(settings),) if serving is None else (Serving(serving), regression_stage(settings))
