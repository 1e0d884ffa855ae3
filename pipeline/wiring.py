"""The stages of a worker, of recorded data, and of commands that ask, as the settings choose them.

The module that builds an operator loads numpy and other libraries, so it is imported only to build stages.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, cast

from laggard.pipeline.core.topics import ANOMALIES, COUNTERS, INCIDENTS, POOLING, SERVING
from laggard.pipeline.methods.applications.settings import ApplicationsSettings
from laggard.pipeline.methods.pools.settings import PoolsSettings
from laggard.pipeline.operator_table import OPERATORS, RANKING
from laggard.pipeline.settings import SettingError
from laggard.pipeline.settings.general import GeneralSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from laggard.pipeline.core.engine.stage import Stage
    from laggard.pipeline.core.topics import Topic, Topics
    from laggard.pipeline.methods.applications.serving import Served
    from laggard.pipeline.scoring.wired import Wired
    from laggard.pipeline.settings import Settings


def wire(settings: Settings) -> tuple[Wired, ...]:
    """Return the operators on frames in the settings, in their order."""
    found: list[Wired] = []
    for name in settings[GeneralSettings].operators:
        operator = OPERATORS[name]
        if operator.topic is COUNTERS:
            module = import_module(f"laggard.pipeline.methods.{operator.module}")
            wired = cast("Callable[[Settings], Wired]", getattr(module, name))(settings)
            answers = wired.answers_marks and operator.ranks
            found.append(replace(wired, leads=not found, answers_marks=answers))
    return tuple(found)


def asked(settings: Settings) -> Wired:
    """Return the operator that answers what is slow: the first that ranks processes.

    Raises `SettingError` without any.
    """
    if wired := next((each for each in wire(settings) if each.answers_marks), None):
        return wired
    problem = f"operators: expected one that ranks processes: {', '.join(RANKING)}"
    raise SettingError([f"{settings.place(GeneralSettings.operators)}: {problem}"])


def inputs(settings: Settings) -> Mapping[str, Topic]:
    """Return the topics that a worker with these settings reads, by the name of the stage. Loads no stage."""
    operators = settings[GeneralSettings].operators
    topics = {name: OPERATORS[name].topic for name in operators}
    serving = {SERVING: COUNTERS} if "regression" in operators and _serves(settings) else {}
    pooling = {POOLING: COUNTERS} if "covariance" in operators and settings[PoolsSettings].members else {}
    return {**topics, **serving, **pooling, INCIDENTS: ANOMALIES}


def inputs_of_groups(settings: Settings, topics: Topics) -> Mapping[str, str]:
    """Return the full name of the topic that each group of a worker reads, by group."""
    return {topics.group(name): topics.name(topic) for name, topic in inputs(settings).items()}


def stages(settings: Settings) -> tuple[Stage, ...]:
    """Return all stages of a worker: the operators, those that re-key their input, and the joiner of anomalies."""
    from laggard.pipeline.methods.incidents.stage import Joining  # noqa: PLC0415 - see above
    from laggard.pipeline.scoring.rekeying import Rekeying  # noqa: PLC0415 - see above

    found = (*wire(settings), *_others(settings), Joining())
    if not any(each.topic is COUNTERS and each.leads for each in found):
        for each in [each for each in found if isinstance(each, Rekeying)][:1]:
            each.leads = True
    return found


def replayed(settings: Settings, served: Served) -> tuple[Stage, ...]:
    """Return the operators for recorded data.

    They include those of applications, pools and services by default, since only the data show whether there are any.

    Args:
        settings: the operators, and their parameters.
        served: returns the applications that a host serves, if the settings do not have them.

    """
    return (*wire(settings), *_others(settings, served))


def _others(settings: Settings, served: Served | None = None) -> tuple[Stage, ...]:
    """Return the stages of applications, pools and services; with `served`, for recorded data."""
    operators, recorded = settings[GeneralSettings].operators, served is not None
    found: list[Stage] = []
    configured = "regression" in operators
    if configured or (recorded and settings.place(GeneralSettings.operators) == "default"):
        from laggard.pipeline.methods.applications import method as applications  # noqa: PLC0415 - see above

        found += applications.stages(settings, (applications.served(settings) if configured else None) or served)
    if "covariance" in operators:
        from laggard.pipeline.methods.pools import method as pools  # noqa: PLC0415 - see above

        found += pools.stages(settings)
    if "requests" in operators:
        from laggard.pipeline.methods.requests import method as requests  # noqa: PLC0415 - see above

        found.append(requests.requests_stage(settings, recorded=recorded))
    return tuple(found)


def _serves(settings: Settings) -> bool:
    """Return whether the settings name the hosts that serve an application."""
    return bool(settings[ApplicationsSettings].hosts or settings[ApplicationsSettings].pattern)
