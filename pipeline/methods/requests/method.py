"""Traced requests: outliers, the reasons for their waits, and whether there are more of them than usual."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from laggard.operators.requests.detector import Requests
from laggard.operators.requests.isomap import isomap, threshold
from laggard.operators.requests.principal import principal
from laggard.operators.requests.rates import Rates
from laggard.operators.requests.usual import evidence, moments
from laggard.operators.requests.whole import whole
from laggard.pipeline.core.topics import REQUESTS
from laggard.pipeline.methods.requests.analysis import AnalysisFunctions
from laggard.pipeline.methods.requests.settings import RequestsSettings
from laggard.pipeline.methods.requests.stage import RequestsStage
from laggard.pipeline.methods.requests.ticks import REQUEST
from laggard.pipeline.settings import SettingError
from laggard.pipeline.settings.kinds import duration

if TYPE_CHECKING:
    from laggard.pipeline.settings import Settings


def requests_stage(settings: Settings, *, recorded: bool = False) -> RequestsStage:
    """Return the stage that judges requests, even if no worker with these settings runs it.

    Args:
        settings: the settings with its parameters.
        recorded: whether it is for recorded data, which have an end.

    Raises:
        SettingError: `minimum_points` is above `reference`.

    """
    own = settings[RequestsSettings]
    eps_s = None if own.eps == "auto" else duration(own.eps)
    minimum_points, reference = own.minimum_points, own.reference
    if minimum_points > reference:
        problem = f"requests.minimum_points is {minimum_points}: expected at most requests.reference, {reference}"
        raise SettingError([f"{settings.place(RequestsSettings.minimum_points)}: {problem}"])
    at_the_end = recorded and own.method == "published"
    return RequestsStage(
        "requests",
        REQUESTS,
        (REQUEST,),
        partial(Rates, false_alarms_per_day=own.false_alarms),
        Requests.state_version + Rates.state_version - 1,
        {
            "eps": own.eps,
            "minimum_points": minimum_points,
            "reference": reference,
            "method": own.method,
            "false_alarms_per_day": own.false_alarms,
        },
        migrations={1: _unchanged},
        answers_marks=False,
        detector=partial(Requests, eps_s=eps_s, minimum_points=minimum_points, reference=reference),
        whole=partial(whole, eps_s=eps_s, minimum_points=minimum_points) if at_the_end else None,
    )


def _unchanged(state: dict[str, Any]) -> dict[str, Any]:
    """Migrate a state of version 1: it only lacks names, and what other threads did. Older versions misread these."""
    return state


def analysis_functions() -> AnalysisFunctions:
    """Return the functions of operators for the analysis of requests."""
    return AnalysisFunctions(moments, evidence, isomap, principal, threshold)
