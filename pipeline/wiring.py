"""Which operator reads which topic and scopes, and how the settings become its parameters. Nothing else knows both."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, cast

from laggard.pipeline.explaining.counters import CATALOGUE
from laggard.pipeline.explaining.verdict import WAITS
from laggard.pipeline.extras import installing
from laggard.pipeline.scoring.wired import Wired
from laggard.pipeline.topics import ANOMALIES, APPLICATIONS, COUNTERS, INCIDENTS, POOLING, POOLS, REQUESTS, SERVING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from laggard.operators.cpu import Machine
    from laggard.operators.cpu.measures import ConditionName
    from laggard.operators.cpu.smoothing import Kind
    from laggard.operators.gaussian.likelihood import Likelihood
    from laggard.operators.regression.following import Criterion, Method
    from laggard.operators.regression.models import Kind as ModelKind
    from laggard.operators.saturation.results import Name
    from laggard.pipeline.applications.regression import Regressing
    from laggard.pipeline.applications.serving import Served
    from laggard.pipeline.engine.stage import Stage
    from laggard.pipeline.pools.covariance import Comparing
    from laggard.pipeline.requests.looking import Looking
    from laggard.pipeline.requests.requests import Judging
    from laggard.pipeline.settings import Settings
    from laggard.pipeline.topics import Topic, Topics


_WEIGHTS: Mapping[str, float] = {
    **{each.name: each.weight for each in CATALOGUE if each.weight != 1.0 and not each.device},
    # What fills up is judged by how much is left: the operator `saturation`.
    "_used_ratio": 0.0,
    "_unused_bytes": 0.0,
}


# What nobody would notice: a thousandth of a core, a few pages held, a little input and output, a handful of anything.
# By the end of the name, for devices have features of their own.
RESOLUTION: Mapping[str, float] = {
    "_ratio": 0.001,
    "_bytes": 64 * 1024.0,
    "_bytes_per_s": 64 * 1024.0,
    "_characters_per_s": 64 * 1024.0,
    "_operations_per_s": 10.0,
    "_per_s": 2.0,
    # One look a tick says whether a thread runs or is blocked just then: a quarter of all looks is little to go by.
    "running_ratio": 0.25,
    "blocked_ratio": 0.25,
    **{each.name: each.resolution for each in CATALOGUE if each.resolution},
}


# How much a process holds, which it gives back when it ends: what can leak.
_STOCKS = ("_bytes", *(each.name for each in CATALOGUE if each.stock))


def wire(settings: Settings) -> tuple[Wired, ...]:
    """The operators on frames that the settings ask for, in that order."""
    found = [_WIRES[name](settings) for name in settings.words("operators") if name in _WIRES]
    return tuple(replace(each, leads=not place) for place, each in enumerate(found))


def asked(settings: Settings) -> Wired:
    """The operator that is asked what is slow: the first that ranks processes. Raises `SettingError` without any."""
    from laggard.pipeline.settings import SettingError  # noqa: PLC0415 - see above

    if wired := next((each for each in wire(settings) if each.answers_marks), None):
        return wired
    told = f"operators: expected one that ranks processes: {', '.join(_RANKING)}"
    raise SettingError([f"{settings.place('operators')}: {told}"])


def inputs(settings: Settings) -> Mapping[str, Topic]:
    """What a worker with these settings reads: the topic of each stage, by its name, without loading any of them."""
    operators = settings.words("operators")
    of_others = {_REGRESSION: APPLICATIONS, _COVARIANCE: POOLS, _REQUESTS: REQUESTS}
    topics = {name: of_others.get(name, COUNTERS) for name in operators}
    serving = {SERVING: COUNTERS} if _REGRESSION in operators and _serves(settings) else {}
    pooling = {POOLING: COUNTERS} if _COVARIANCE in operators and settings.table("pools.members") else {}
    return {**topics, **serving, **pooling, INCIDENTS: ANOMALIES}


def inputs_of_groups(settings: Settings, topics: Topics) -> Mapping[str, str]:
    """Return the full name of the topic that each group of a worker reads, by the group."""
    return {topics.group(name): topics.name(topic) for name, topic in inputs(settings).items()}


def stages(settings: Settings) -> tuple[Stage, ...]:
    """All that a worker runs: the operators, what re-keys the input of some, and what joins their anomalies."""
    from laggard.pipeline.incidents.joining import Joining  # noqa: PLC0415
    from laggard.pipeline.scoring.rekeying import Rekeying  # noqa: PLC0415 - as above

    of_applications = _of_applications(settings, _served(settings))
    found = (*wire(settings), *of_applications, *_of_pools(settings), *_of_services(settings), Joining())
    if not any(each.topic is COUNTERS and each.leads for each in found):
        for each in [each for each in found if isinstance(each, Rekeying)][:1]:
            each.leads = True
    return found


def replayed(settings: Settings, served: Served) -> tuple[Stage, ...]:
    """The operators for recorded data.

    Those of applications, pools and services are among them by default, for there is no other sign of these than the
    data themselves.

    Args:
        settings: which operators, and their parameters.
        served: which applications a host serves, where the settings do not say it.

    """
    if settings.place("operators") == "default" and _REGRESSION not in settings.words("operators"):
        of_applications = _serving_and_regression(settings, served)
    else:
        of_applications = _of_applications(settings, _served(settings) or served)
    return (*wire(settings), *of_applications, *_of_pools(settings), *_of_services(settings, recorded=True))


def _of_applications(settings: Settings, served: Served | None) -> tuple[Stage, ...]:
    return _serving_and_regression(settings, served) if _REGRESSION in settings.words("operators") else ()


def _serving_and_regression(settings: Settings, served: Served | None) -> tuple[Stage, ...]:
    from laggard.pipeline.applications.serving import Serving  # noqa: PLC0415 - as above

    return (regressing(settings),) if served is None else (Serving(served), regressing(settings))


def _of_pools(settings: Settings) -> tuple[Stage, ...]:
    if _COVARIANCE not in settings.words("operators"):
        return ()
    if not (patterns := settings.table("pools.members")):
        return (comparing(settings),)
    from laggard.pipeline.pools.pooling import Members, Pooling  # noqa: PLC0415 - as above

    return Pooling(Members({pool: str(said) for pool, said in patterns.items()})), comparing(settings)


def _of_services(settings: Settings, *, recorded: bool = False) -> tuple[Stage, ...]:
    return (judging(settings, recorded=recorded),) if _REQUESTS in settings.words("operators") else ()


def _serves(settings: Settings) -> bool:
    return bool(settings.table("applications.hosts") or settings.text("applications.pattern"))


def _served(settings: Settings) -> Served | None:
    """Which applications a host serves; None where the settings do not say it."""
    if not _serves(settings):
        return None
    from laggard.pipeline.applications.serving import ServedBySettings  # noqa: PLC0415 - as above

    hosts = {name: str(said) for name, said in settings.table("applications.hosts").items()}
    return ServedBySettings(hosts, settings.text("applications.pattern"))


def regressing(settings: Settings) -> Regressing:
    """What builds performance models, whether or not a worker with these settings runs it.

    Raises `SettingError` where the kind of model needs scikit-learn, and there is none.
    """
    from laggard.operators.regression import Regression  # noqa: PLC0415 - as above
    from laggard.pipeline.applications.regression import Regressing  # noqa: PLC0415
    from laggard.pipeline.applications.resources import trait  # noqa: PLC0415
    from laggard.pipeline.settings import SettingError  # noqa: PLC0415

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


def comparing(settings: Settings) -> Comparing:
    """What compares the members of pools, whether or not a worker with these settings runs it."""
    from laggard.operators.covariance import Covariance  # noqa: PLC0415 - as above
    from laggard.pipeline.pools.covariance import MEMBER, Comparing  # noqa: PLC0415

    method = cast('Literal["adaptive", "published"]', settings.choice("covariance.method"))
    windows = tuple(map(int, settings.words("covariance.windows")))
    false_alarms_per_day = settings.per_day("covariance.false_alarms")
    replicates = settings.count("covariance.replicates")
    return Comparing(
        _COVARIANCE,
        POOLS,
        (MEMBER,),
        partial(
            Covariance,
            method=method,
            windows=windows,
            false_alarms_per_day=false_alarms_per_day,
            resolution=RESOLUTION,
            replicates=replicates,
        ),
        Covariance.state_version,
        {
            "method": method,
            "windows": ", ".join(map(str, windows)),
            "false_alarms_per_day": false_alarms_per_day,
            "replicates": replicates,
        },
        answers_marks=False,
    )


def judging(settings: Settings, *, recorded: bool = False) -> Judging:
    """What judges requests, whether or not a worker with these settings runs it.

    Args:
        settings: its parameters.
        recorded: whether it is for recorded data, which have an end.

    Raises:
        SettingError: fewer requests would be kept than are asked for.

    """
    from laggard.operators.requests.detector import Requests  # noqa: PLC0415 - as above
    from laggard.operators.requests.rates import Rates  # noqa: PLC0415
    from laggard.operators.requests.whole import whole  # noqa: PLC0415
    from laggard.pipeline.requests.requests import Judging  # noqa: PLC0415
    from laggard.pipeline.requests.ticks import REQUEST  # noqa: PLC0415
    from laggard.pipeline.settings import SettingError  # noqa: PLC0415
    from laggard.pipeline.settings.kinds import duration  # noqa: PLC0415

    eps = settings.text("requests.eps")
    eps_s = None if eps == "auto" else duration(eps)
    minimum_points, reference = settings.count("requests.minimum_points"), settings.count("requests.reference")
    if minimum_points > reference:
        told = f"requests.minimum_points is {minimum_points}: expected at most requests.reference, {reference}"
        raise SettingError([f"{settings.place('requests.minimum_points')}: {told}"])
    method = settings.choice("requests.method")
    at_the_end = recorded and method == "published"
    false_alarms_per_day = settings.per_day("requests.false_alarms")
    return Judging(
        _REQUESTS,
        REQUESTS,
        (REQUEST,),
        partial(Rates, false_alarms_per_day=false_alarms_per_day),
        Requests.state_version + Rates.state_version - 1,
        {
            "eps": eps,
            "minimum_points": minimum_points,
            "reference": reference,
            "method": method,
            "false_alarms_per_day": false_alarms_per_day,
        },
        answers_marks=False,
        judge=partial(Requests, eps_s=eps_s, minimum_points=minimum_points, reference=reference),
        whole=partial(whole, eps_s=eps_s, minimum_points=minimum_points) if at_the_end else None,
    )


def looking() -> Looking:
    """What works out of requests what people look at."""
    from laggard.operators.requests.isomap import isomap, threshold  # noqa: PLC0415 - as above
    from laggard.operators.requests.principal import principal  # noqa: PLC0415
    from laggard.operators.requests.usual import evidence, moments  # noqa: PLC0415
    from laggard.pipeline.requests.looking import Looking  # noqa: PLC0415

    return Looking(moments, evidence, isomap, principal, threshold)


def _gaussian(settings: Settings) -> Wired:
    # Here, so that naming the operators does not load numpy and what else they need.
    from laggard.operators.deviations import MIGRATIONS, Deviations  # noqa: PLC0415
    from laggard.operators.features import Directions  # noqa: PLC0415
    from laggard.operators.gaussian import Gaussian  # noqa: PLC0415
    from laggard.operators.lasting import Lasting, Series  # noqa: PLC0415

    context_s = settings.seconds("gaussian.context")
    minimum_features = settings.count("gaussian.minimum_features")
    likelihood = cast("Likelihood", settings.choice("gaussian.likelihood"))
    false_alarms_per_day = settings.per_day("gaussian.false_alarms")
    accepted_after_s = settings.seconds("gaussian.accepted_after")
    lasts = likelihood == "scale_free"
    directions = Directions(settings.words("features.rising"), settings.words("features.falling"))
    gaussian = partial(
        Gaussian,
        context_s=context_s,
        minimum_features=minimum_features,
        likelihood=likelihood,
        weights=_WEIGHTS,
        resolution=RESOLUTION,
        directions=directions,
        waits=tuple(WAITS),
        stocks=_STOCKS,
        notices=True,
    )

    def make(*, scope: str = "process", **parameters: Any) -> Deviations:
        if not lasts or scope == "host":  # a host is judged by what it is short of, not by what its processes use
            return Deviations(gaussian(**parameters))
        if scope == "process":
            return Deviations(gaussian(**parameters), Lasting(accepted_after_s=accepted_after_s))
        series = Series(resolution=RESOLUTION, accepted_after_s=accepted_after_s, directions=directions)
        return Deviations(gaussian(**parameters), series)

    return Wired(
        "gaussian",
        COUNTERS,
        ("process", "host"),
        make,
        Deviations.state_version,
        {
            "context_s": context_s,
            "minimum_features": minimum_features,
            "likelihood": likelihood,
            "false_alarms_per_day": false_alarms_per_day,
            "accepted_after_s": accepted_after_s,
            **{name: ",".join(ends) for name, ends in directions._asdict().items() if ends},
        },
        MIGRATIONS,
        of_scope={"host": {"scope": "host"}, "": {"scope": ""}},
        others=True,
        false_alarms_per_day=false_alarms_per_day,
        # What processes do suddenly, what they do for long twice, and what the host does.
        shares={"process": 3.0 if lasts else 1.0},
    )


def _cpu(settings: Settings) -> Wired:
    from laggard.operators.cpu import Cpu  # noqa: PLC0415 - see above

    conditions = cast("tuple[ConditionName, ...]", settings.words("cpu.conditions"))
    thresholds = _thresholds(settings)
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
        answers_marks=next(name for name in settings.words("operators") if name in _RANKING) == "cpu",
    )


def machines(settings: Settings) -> Mapping[ConditionName, Callable[[], Machine]]:
    """By condition that is watched, what makes the machine of it: on the host it is the same one as in the operator."""
    from laggard.operators.cpu import Machine  # noqa: PLC0415 - see above

    thresholds, duration_s = _thresholds(settings), settings.seconds("cpu.duration")
    return {
        name: partial(Machine, threshold=thresholds[name], duration_s=duration_s)
        for name in cast("tuple[ConditionName, ...]", settings.words("cpu.conditions"))
    }


def _saturation(settings: Settings) -> Wired:
    from laggard.operators.saturation import Saturation, Users  # noqa: PLC0415 - see above
    from laggard.pipeline.saturation.saturation import HOST, LIMIT, PROCESS, Saturating  # noqa: PLC0415

    duration_s, forecast_s = settings.seconds("saturation.duration"), settings.seconds("saturation.forecast")
    limits: Mapping[Name, float] = {
        "cpu": settings.ratio("saturation.cpu"),
        "heat": settings.ratio("saturation.heat"),
        "memory_pressure": settings.ratio("saturation.memory_pressure"),
        "memory": settings.ratio("saturation.memory"),
        "disk": settings.ratio("saturation.disk"),
        "filesystem": settings.ratio("saturation.filesystem"),
        "descriptors": settings.ratio("saturation.descriptors"),
        "pids": settings.ratio("saturation.pids"),
    }
    of_parts: Mapping[Name, float] = {
        "group_memory": limits["memory"],
        "group_pids": limits["pids"],
        "process_descriptors": limits["descriptors"],
    }
    saturation = partial(Saturation, duration_s=duration_s, limits={**limits, **of_parts}, forecast_s=forecast_s)

    def make(*, scope: str = HOST) -> Saturation | Users:
        return Users() if scope == PROCESS else saturation()

    return Saturating(
        _SATURATION,
        COUNTERS,
        (HOST, PROCESS, LIMIT),
        make,
        Saturation.state_version + Users.state_version - 1,
        {
            "duration_s": duration_s,
            "forecast_s": forecast_s,
            **{f"{name}_limit": limit for name, limit in limits.items()},
        },
        answers_marks=False,
        of_scope={scope: {"scope": scope} for scope in (HOST, PROCESS, LIMIT)},
        # Nothing of processes is unusual here: it is known for what is said of the host.
        hidden=frozenset({PROCESS}),
    )


def _thresholds(settings: Settings) -> Mapping[ConditionName, float]:
    """From which reading on each condition is high."""
    return {
        "cpu": settings.ratio("cpu.threshold"),
        "single_cpu": settings.ratio("cpu.threshold"),
        "spikes": settings.per_day("cpu.spikes") / 86400.0,
        "quota": settings.ratio("cpu.quota"),
        "io_pressure": settings.ratio("cpu.io_pressure"),
        "memory_pressure": settings.ratio("cpu.memory_pressure"),
    }


def _river(settings: Settings) -> Wired:
    """Raises `SettingError` where there is no such detector, or no river."""
    from laggard.operators.river import MIGRATIONS, Blueprint, River  # noqa: PLC0415 - see above
    from laggard.pipeline.settings import SettingError  # noqa: PLC0415

    detector, parameters = settings.text("river.detector"), settings.table("river.parameters")
    try:
        blueprint = Blueprint(detector, parameters)
    except ImportError as error:
        needs = f"the operator river needs river, which is not installed; {installing('river')}"
        raise SettingError([f"{settings.place('operators')}: {needs}"]) from error
    except ValueError as error:
        name = "river.parameters" if parameters else "river.detector"
        raise SettingError([f"{settings.place(name)}: {name}: {error}"]) from None
    context_s = settings.seconds("river.context")
    false_alarms_per_day = settings.per_day("river.false_alarms")
    return Wired(
        "river",
        COUNTERS,
        ("process", "host"),
        partial(River, blueprint=blueprint, context_s=context_s),
        River.state_version,
        {
            "detector": detector,
            "context_s": context_s,
            "false_alarms_per_day": false_alarms_per_day,
            **{name: str(value) if isinstance(value, bool) else value for name, value in parameters.items()},
        },
        MIGRATIONS,
        others=True,
        false_alarms_per_day=false_alarms_per_day,
    )


_REGRESSION = "regression"
_COVARIANCE = "covariance"
_REQUESTS = "requests"
_SATURATION = "saturation"
_RANKING = ("gaussian", "cpu", "river")
"""Those that rank processes: the first of them that runs is asked what is slow."""

_WIRES: Mapping[str, Callable[[Settings], Wired]] = {
    "gaussian": _gaussian,
    "cpu": _cpu,
    _SATURATION: _saturation,
    "river": _river,
}
