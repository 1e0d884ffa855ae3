"""Performance models of applications, and the counters of their hosts under their keys."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, cast

from laggard.operators.regression import Regression
from laggard.pipeline.applications.resources import trait
from laggard.pipeline.applications.serving import ServedBySettings, Serving
from laggard.pipeline.applications.stage import Regressing
from laggard.pipeline.explaining.counters import RESOLUTION
from laggard.pipeline.extras import installing
from laggard.pipeline.settings import SettingError

if TYPE_CHECKING:
    from laggard.operators.regression.following import Criterion, Method
    from laggard.operators.regression.models import Kind as ModelKind
    from laggard.pipeline.applications.serving import Served
    from laggard.pipeline.engine.stage import Stage
    from laggard.pipeline.settings import Settings


def served(settings: Settings) -> Served | None:
    """Return which applications a host serves; None if the settings do not say it."""
    hosts = {name: str(said) for name, said in settings.table("applications.hosts").items()}
    pattern = settings.text("applications.pattern")
    return ServedBySettings(hosts, pattern) if hosts or pattern else None


def regressing(settings: Settings) -> Regressing:
    """What builds performance models, whether or not a worker with these settings runs it.

    Raises `SettingError` where the kind of model needs scikit-learn, and there is none.
    """
    kind = cast("ModelKind", settings.choice("regression.kind"))
    if kind != "linear" and find_spec("sklearn") is None:
        needs = f"models of this kind need scikit-learn, which is not installed; {installing('models')}"
        raise SettingError([f"{settings.place('regression.kind')}: regression.kind is {kind}: {needs}"])
    performance = settings.words("regression.performance")
    candidates, window = settings.count("regression.candidates"), settings.count("regression.window")
    minimum_gain = settings.number("regression.minimum_gain")
    significance = settings.ratio("regression.significance")
    criterion = cast("Criterion", settings.choice("regression.criterion"))
    method = cast("Method", settings.choice("regression.method"))
    false_alarms_per_day = settings.per_day("regression.false_alarms")
    false_rebuilds_per_day = settings.per_day("regression.false_rebuilds")
    return Regressing(
        partial(
            Regression,
            performance=performance,
            candidates=candidates,
            window=window,
            minimum_gain=minimum_gain,
            significance=significance,
            kind=kind,
            criterion=criterion,
            method=method,
            trait=trait,
            resolution=RESOLUTION,
            false_alarms_per_day=false_alarms_per_day,
            false_rebuilds_per_day=false_rebuilds_per_day,
        ),
        Regression.state_version,
        {
            "performance": ", ".join(performance),
            "candidates": candidates,
            "window": window,
            "minimum_gain": minimum_gain,
            "kind": kind,
            "method": method,
            **({"significance": significance, "criterion": criterion} if method == "published" else {}),
            "false_alarms_per_day": false_alarms_per_day,
            "false_rebuilds_per_day": false_rebuilds_per_day,
        },
    )


def stages(settings: Settings, serving: Served | None) -> tuple[Stage, ...]:
    """Return what makes models, after what gives it the counters of the hosts, where it is known who serves what."""
    return (regressing(settings),) if serving is None else (Serving(serving), regressing(settings))
