from __future__ import annotations

import re
import sys

import numpy as np
import pytest

from laggard.operators.covariance import Covariance
from laggard.operators.cpu import Cpu
from laggard.operators.deviations import Deviations
from laggard.operators.regression import Regression
from laggard.operators.requests.detector import Requests
from laggard.operators.requests.rates import Rates
from laggard.operators.river import River
from laggard.pipeline.alarms.trigger import Trigger
from laggard.pipeline.core.records import Frame, make_layout
from laggard.pipeline.core.topics import TOPICS
from laggard.pipeline.manifest import read_settings
from laggard.pipeline.methods.applications.serving import ServedByFrames, Serving
from laggard.pipeline.methods.applications.stage import RegressionStage
from laggard.pipeline.methods.hosts.cpu import machines
from laggard.pipeline.methods.pools.stage import PoolStage
from laggard.pipeline.methods.requests.stage import RequestsStage
from laggard.pipeline.scoring.scopes import Scopes
from laggard.pipeline.scoring.stream import Stream
from laggard.pipeline.settings import SettingError, Settings, parse_assignment
from laggard.pipeline.settings.general import GeneralSettings
from laggard.pipeline.wiring import asked, inputs, replayed, stages, wire


def settings_of(*flags: str) -> Settings:
    return read_settings(environ={}, flags=[parse_assignment(each) for each in flags])


@pytest.mark.parametrize(
    "name", sorted(set(GeneralSettings.operators.choices) - {"regression", "covariance", "requests"})
)
def test_every_operator_on_frames_that_can_be_chosen_is_wired(name: str) -> None:
    (wired,) = wire(settings_of(f"operators={name}"))
    assert wired.name == name
    assert wired.topic in TOPICS
    assert wired.scopes
    operator = wired.make()
    assert operator is not wired.make()
    assert operator.state_version == wired.state_version
    layout = make_layout(["a[1]"], ["a"], ["cpu_ratio"])
    operator.learn(1.0, layout, np.ones((1, 1)))
    scores = operator.score(2.0, layout, np.ones((1, 1)))
    assert scores.ranking(rows=1, features=1).ts == 2.0
    assert isinstance(scores.score, float)


def test_settings_become_parameters() -> None:
    wired, *_ = wire(settings_of("gaussian.context=1h", "gaussian.minimum_features=3", "gaussian.accepted_after=2h"))
    operator = wired.make()
    assert isinstance(operator, Deviations)
    assert (operator.gaussian.context_s, operator.gaussian.minimum_features) == (3600.0, 3)
    assert operator.lasting is not None
    assert operator.lasting._accepted_after_s == 7200.0
    assert wired.parameters["context_s"] == 3600.0
    assert wired.parameters["minimum_features"] == 3
    assert wired.parameters["accepted_after_s"] == 7200.0
    assert all(getattr(operator.gaussian, name, value) == value for name, value in wired.parameters.items())


@pytest.mark.parametrize(("likelihood", "sudden", "lasting"), [("scale_free", 0.5, 1.0), ("paper", 1.0, None)])
def test_the_budget_of_a_host_is_shared(likelihood: str, sudden: float, lasting: float | None) -> None:
    wired, *_ = wire(settings_of("gaussian.false_alarms=2/day", f"gaussian.likelihood={likelihood}"))
    assert wired.parameters["false_alarms_per_day"] == 2.0
    host = Scopes({scope: Stream(wired.make_for(scope)) for scope in wired.scopes}, wired=wired)
    layout = make_layout(("a[1]",), ("a",), ("cpu_user_ratio",))
    for scope, stream in host.streams.items():
        frame = Frame("host", "web-1", scope, 1e9, 1, layout, np.zeros((1, 1)))
        stream.accept(frame, stream.score(frame), Trigger())
    host.share()
    of_processes, of_host = (stream.operator for stream in host.streams.values())
    assert isinstance(of_processes, Deviations)
    assert isinstance(of_host, Deviations)
    for operator, for_long in ((of_processes, lasting), (of_host, None)):
        operator.score(1e9 + 5.0, layout, np.zeros((1, 1)))
        assert operator.gaussian.false_alarms_per_day == pytest.approx(sudden)
        found = None if operator.lasting is None else operator.lasting.false_alarms_per_day
        assert found == (None if for_long is None else pytest.approx(for_long))


def test_the_machines_of_the_host_are_those_of_the_operator() -> None:
    flags = [
        "cpu.threshold=0.5",
        "cpu.duration=7s",
        "cpu.conditions=cpu,single_cpu,spikes,quota",
        "cpu.spikes=3/minute",
    ]
    settings = settings_of("operators=cpu", *flags)
    (wired,) = wire(settings)
    operator, made = wired.make(), machines(settings)
    assert isinstance(operator, Cpu)
    assert {name: make().threshold for name, make in made.items()} == dict(operator.thresholds)
    assert operator.thresholds == {"cpu": 0.5, "single_cpu": 0.5, "spikes": 0.05, "quota": 0.5}
    assert {make().duration_s for make in made.values()} == {operator.duration_s} == {7.0}
    assert made["cpu"]() is not made["cpu"]()


def test_one_operator_of_a_topic_leads() -> None:
    found = stages(settings_of("operators=saturation,gaussian,cpu,covariance", "pools.members=x=y"))
    leading = [each.name for each in found if each.leads]
    assert leading == ["saturation", "covariance", "incidents"]
    assert len({each.topic for each in found}) == len(leading)


def test_without_an_operator_on_hosts_what_re_keys_leads() -> None:
    found = stages(settings_of("operators=covariance", "pools.members=x=y"))
    assert [(each.name, each.leads) for each in found] == [("pooling", True), ("covariance", True), ("incidents", True)]


def test_high_use_answers_a_mark_only_where_it_comes_first() -> None:
    def answering(operators: str) -> list[str]:
        found = wire(settings_of(f"operators={operators}"))
        return [each.name for each in found if each.answers_marks]

    assert answering("gaussian,cpu") == ["gaussian"]
    assert answering("cpu") == ["cpu"]


def test_river_gets_its_detector_and_its_parameters() -> None:
    flags = ("operators=river", "river.detector=LODA", "river.parameters=n_bins=5,seed=3", "river.context=1h")
    (wired,) = wire(settings_of(*flags))
    operator = wired.make()
    assert isinstance(operator, River)
    assert (operator.detector, operator.parameters, operator.context_s) == ("LODA", {"n_bins": 5, "seed": 3}, 3600.0)
    assert {"detector": "LODA", "n_bins": 5, "seed": 3, "context_s": 3600.0}.items() <= wired.parameters.items()


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("river.detector=Forest",), "--set: river.detector: expected one of .*HalfSpaceTrees.*, got Forest"),
        (
            ("river.parameters=n_tree=5",),
            "--set: river.parameters: expected parameters of HalfSpaceTrees .*, got n_tree",
        ),
    ],
)
def test_a_detector_that_cannot_be_used_is_an_error_of_the_settings(flags: tuple[str, ...], said: str) -> None:
    settings = settings_of("operators=river", *flags)
    with pytest.raises(SettingError, match=said):
        wire(settings)


def test_without_river_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "river", None)
    settings = settings_of("operators=gaussian,river")
    needs = f"--set: the operator river needs river, which is not installed; pip --python {sys.executable} install "
    with pytest.raises(SettingError, match=re.escape(f"{needs}'laggard[river]'")):
        wire(settings)


# Applications.


APPLICATIONS = ["gaussian", "cpu", "saturation", "serving", "regression"]


@pytest.mark.parametrize(
    ("flags", "run"),
    [
        ((), ["gaussian", "cpu", "saturation", "covariance", "requests", "incidents"]),
        (
            ("pools.members=web=*/nginx",),
            ["gaussian", "cpu", "saturation", "pooling", "covariance", "requests", "incidents"],
        ),
        (("pools.members=web=*/nginx", "operators=cpu"), ["cpu", "incidents"]),
        (("operators=covariance",), ["covariance", "incidents"]),
        (("operators=requests",), ["requests", "incidents"]),
        (("applications.hosts=shop=web-*",), [*APPLICATIONS, "covariance", "requests", "incidents"]),
        ((r"applications.pattern=(?P<application>\w+)-.*",), [*APPLICATIONS, "covariance", "requests", "incidents"]),
        (("applications.hosts=shop=web-*", "operators=gaussian"), ["gaussian", "incidents"]),
        (("operators=regression",), ["regression", "incidents"]),
    ],
)
def test_what_a_worker_runs_where_there_are_applications(flags: tuple[str, ...], run: list[str]) -> None:
    settings = settings_of(*flags)
    found = stages(settings)
    assert [each.name for each in found] == run
    assert inputs(settings) == {each.name: each.topic for each in found}
    assert {topic for each in found for topic in each.writes} <= set(TOPICS)


def test_recorded_data_is_looked_through_for_applications_by_default() -> None:
    def run(*flags: str) -> list[str]:
        return [each.name for each in replayed(settings_of(*flags), ServedByFrames())]

    assert run() == [*APPLICATIONS, "covariance", "requests"]
    assert run("operators=gaussian") == ["gaussian"]
    assert run("operators=regression") == ["serving", "regression"]
    assert run("operators=gaussian,covariance", "pools.members=web=*/nginx") == ["gaussian", "pooling", "covariance"]
    by_frames, *_ = (each for each in replayed(settings_of(), ServedByFrames()) if isinstance(each, Serving))
    assert isinstance(by_frames.served, ServedByFrames)
    flags = ("applications.hosts=shop=web-* db-1", "operators=regression")
    by_settings, _ = replayed(settings_of(*flags), ServedByFrames())
    assert isinstance(by_settings, Serving)
    assert tuple(by_settings.served("db-1")) == ("shop",)


def test_regression_gets_its_parameters() -> None:
    flags = ("operators=regression", "regression.candidates=7", "regression.window=12", "regression.kind=tree")
    (stage, _) = stages(settings_of(*flags, "regression.performance=throughput_per_s", "regression.method=published"))
    assert isinstance(stage, RegressionStage)
    operator = stage.make()
    assert isinstance(operator, Regression)
    assert operator.performance == ("throughput_per_s",)
    assert (
        operator._parameters.items() >= {"candidates": 7, "window": 12, "kind": "tree", "method": "published"}.items()
    )
    assert {name: operator._parameters[name] for name in stage.parameters if name != "performance"} == {
        name: value for name, value in stage.parameters.items() if name != "performance"
    }
    assert operator._parameters["trait"]("web-1:cpu_wait_ratio").role == "wait"


def test_the_operator_that_is_asked_ranks_processes() -> None:
    for operators, first in (("regression,cpu", "cpu"), ("saturation,cpu", "cpu"), ("saturation,gaussian", "gaussian")):
        wired = asked(settings_of(f"operators={operators}"))
        assert (wired.name, wired.answers_marks) == (first, True)
    said = "--set: operators: expected one that ranks processes: gaussian, cpu, river"
    for operators in ("regression", "saturation"):
        with pytest.raises(SettingError, match=said):
            asked(settings_of(f"operators={operators}"))


@pytest.mark.parametrize(
    ("flag", "told"),
    [
        ("applications.hosts=shop=", "expected for 'shop' hosts, or patterns such as web-*, separated by blanks"),
        ("applications.hosts=shop=5", "expected for 'shop' hosts"),
        ("applications.pattern=([a-z]+)-.*", "expected a group that names the application: (?P<application>...)"),
        ("applications.pattern=(", "expected a regular expression of Python: missing ), unterminated subpattern"),
        ("regression.window=3", "expected a count from 4 to 60"),
        ("regression.kind=forest", "expected one of linear, neighbours, tree, boosting"),
        ("pools.members=web=", "expected for 'web' patterns HOST/PROCESS, or HOST for hosts, separated by blanks"),
        ("pools.members=web=web-1/", "expected for 'web' patterns HOST/PROCESS"),
        ("pools.members=web=web-1/nginx /nginx", "expected for 'web' patterns HOST/PROCESS"),
        ("pools.members=web=5", "expected for 'web' patterns HOST/PROCESS"),
        ("covariance.windows=3,12", "expected lengths in ticks from 4 to 10,000, each longer than the one before"),
        ("covariance.windows=48,12", "expected lengths in ticks"),
        ("covariance.windows=12,x", "expected lengths in ticks"),
        ("covariance.method=other", "expected one of adaptive, published"),
    ],
)
def test_wrong_settings_of_applications_and_pools_are_told(flag: str, told: str) -> None:
    with pytest.raises(SettingError, match=re.escape(told)):
        settings_of(flag)


def test_covariance_gets_its_parameters() -> None:
    flags = ("covariance.method=published", "covariance.windows=5,10", "covariance.false_alarms=2/day")
    (stage, _) = stages(settings_of("operators=covariance", *flags, "covariance.replicates=7"))
    assert isinstance(stage, PoolStage)
    operator = stage.make()
    assert isinstance(operator, Covariance)
    assert operator is not stage.make()
    expected = {"method": "published", "windows": (5, 10), "false_alarms_per_day": 2.0, "replicates": 7}
    assert (operator.method, operator.replicates) == ("published", 7)
    assert (operator.pool.windows, operator.pool.false_alarms_per_day) == ((5, 10), 2.0)
    assert stage.parameters == expected | {"windows": "5, 10"}
    assert stage.state_version == operator.state_version


def test_models_that_need_scikit_learn_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laggard.pipeline.methods.applications.method.find_spec", lambda _: None)
    with pytest.raises(SettingError, match=r"regression.kind is boosting: .* scikit-learn, .* 'laggard\[models\]'"):
        stages(settings_of("operators=regression", "regression.kind=boosting"))
    assert stages(settings_of("operators=regression"))


# Requests.


def test_settings_of_requests_become_parameters() -> None:
    flags = ("eps=25ms", "minimum_points=50", "reference=500", "method=published", "false_alarms=2/day")
    settings = settings_of("operators=requests", *(f"requests.{each}" for each in flags))
    stage, _ = stages(settings)
    assert isinstance(stage, RequestsStage)
    judge, rates = stage.detector(), stage.make()
    assert isinstance(judge, Requests)
    assert isinstance(rates, Rates)
    assert judge is not stage.detector()
    assert judge.eps_s == 0.025
    assert stage.state_version == judge.state_version + rates.state_version - 1
    assert list(stage.migrations) == list(range(1, stage.state_version))
    state = rates.snapshot()
    assert [migrate(state) for migrate in stage.migrations.values()] == [state]
    # As published needs an end.
    (of_recorded,) = replayed(settings, ServedByFrames())
    assert isinstance(of_recorded, RequestsStage)
    assert (stage.whole is None, of_recorded.whole is None) == (True, False)
    assert stage.parameters == {
        "eps": "25ms",
        "minimum_points": 50,
        "reference": 500,
        "method": "published",
        "false_alarms_per_day": 2.0,
    }


def test_by_default_what_counts_as_near_is_estimated() -> None:
    *_, stage, _ = stages(settings_of())
    assert isinstance(stage, RequestsStage)
    judge = stage.detector()
    assert isinstance(judge, Requests)
    assert np.isnan(judge.eps_s)
    assert (stage.whole, stage.answers_marks) == (None, False)
