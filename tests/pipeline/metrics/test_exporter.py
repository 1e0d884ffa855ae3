"""The exporter: what /metrics shows, and that no name and no number of streams can spoil it."""

from __future__ import annotations

import dataclasses
import math
import re
import subprocess
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from deploy.generate.metrics import document
from laggard.operators.contract import LastingScores, Open
from laggard.operators.covariance.results import Deviation
from laggard.operators.cpu import Cpu
from laggard.operators.gaussian import Gaussian
from laggard.operators.ranking import FeatureScore, Ranking, RowScore
from laggard.operators.regression import Model, Term
from laggard.operators.requests.results import RequestScore
from laggard.pipeline.alarms.anomalies import Anomalies, OpenAnomaly
from laggard.pipeline.alarms.courses import Course
from laggard.pipeline.alarms.notices import Notices
from laggard.pipeline.alarms.status import STATUSES
from laggard.pipeline.core.bus import Partition
from laggard.pipeline.core.engine.telemetry import TaskTelemetry, Telemetry
from laggard.pipeline.core.records import Frame, Mark, Request, make_layout
from laggard.pipeline.core.records.models import PredictionOutput
from laggard.pipeline.core.records.outputs import Blame, Evidence, Incident
from laggard.pipeline.metrics import applications as shown_models
from laggard.pipeline.metrics import exporter
from laggard.pipeline.metrics import incidents as shown_incidents
from laggard.pipeline.metrics import pools as shown_pools
from laggard.pipeline.metrics import requests as shown_requests
from laggard.pipeline.metrics.declared import (
    HOST_DEVICES,
    HOST_FEATURES,
    MAX_CLUSTERS,
    MAX_LABEL,
    MAX_STATES,
    METRICS,
    STALE_S,
    TOP_TERMS,
    WORST_S,
)
from laggard.pipeline.metrics.exporter import Exporter, metrics_registry
from laggard.pipeline.metrics.exposition import write_metrics
from laggard.pipeline.metrics.samples import label
from laggard.pipeline.metrics.streams import MOST_OPEN
from laggard.pipeline.metrics.tasks import TASK_LABELS
from laggard.producers.host.agent import AGENT_FEATURES, Agent
from laggard.producers.sources.performance import SOURCE_FEATURES
from laggard.producers.trace.overhead import OWN_FEATURES, own_frame
from tests.programs import path_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import ModuleType

ROOT = Path(__file__).parents[3]
CALM = Anomalies()
ANOMALY = "0d1e5e3a-9d0c-5b1c-8f7e-3f1e0a4b7c55"
TS = 1_700_000_000.0
FEATURES = ("cpu_user_ratio", "memory_rss_bytes")


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Given:
    """Scores as an operator would give them, with a ranking that is known."""

    def __init__(self, rows: Sequence[tuple[str, float]], score: float = 1.5, *, young: bool = False) -> None:
        self.score = score
        self.asked: list[int] = []
        self._young = young
        self._rows = sorted(
            (
                RowScore(
                    row=f"{name}[{number}@1]",
                    name=name,
                    score=score,
                    features=(
                        FeatureScore("cpu_user_ratio", 0.9, 0.1, 0.05, 2 * score),
                        FeatureScore("memory_rss_bytes", 1e6, 1e6, 1.0, score),
                    ),
                    age_s=60.0,
                )
                for number, (name, score) in enumerate(rows)
            ),
            key=lambda row: -row.score if not math.isnan(row.score) else math.inf,
        )

    def ranking(self, rows: int, features: int) -> Ranking:
        self.asked.append(rows)
        worst = tuple(dataclasses.replace(row, features=row.features[:features]) for row in self._rows[:rows])
        return Ranking(TS, self.score, worst, 3600.0, self._young)


def frame(names: Sequence[str], scope: str = "process", host: str = "web-1") -> Frame:
    rows = [f"{name}[{number}@1]" for number, name in enumerate(names)]
    return Frame("host", host, scope, TS, 1, make_layout(rows, names, FEATURES), np.zeros((len(rows), 2)))


def host_frame(values: dict[str, float]) -> Frame:
    return Frame(
        "host", "web-1", "host", TS, 1, make_layout(("host",), ("host",), values), np.array([[*values.values()]])
    )


def source_frame(name: str, values: Sequence[float]) -> Frame:
    layout = make_layout((name,), (name,), SOURCE_FEATURES)
    return Frame("application", "shop", "source", 1e9, 1, layout, np.array([values], dtype=np.float64))


def agent_frame(values: Sequence[float], host: str = "web-1") -> Frame:
    layout = make_layout(("agent",), ("agent",), AGENT_FEATURES)
    return Frame("host", host, "agent", TS, 1, layout, np.array([values], np.float64))


class Page:
    """An exporter on a registry of its own."""

    def __init__(self, top_rows: int = 2) -> None:
        self.clock = Clock()
        self.telemetry = Telemetry()
        self.exporter = Exporter(self.telemetry, top_rows, {"gaussian": 0.5}, self.clock)
        self.registry = CollectorRegistry()
        self.registry.register(self.exporter)

    def scored(
        self,
        rows: Sequence[tuple[str, float]],
        host: str = "web-1",
        scope: str = "process",
        anomalies: Anomalies = CALM,
    ) -> Given:
        scores = Given(rows)
        self.exporter.scored("gaussian", frame([name for name, _ in rows], scope, host), scores, anomalies)
        return scores

    def text(self) -> str:
        return generate_latest(self.registry).decode()

    def samples(self, name: str, *labels: str) -> dict[tuple[str, ...], float]:
        """Values of these labels, or of host, row and feature -> value; read as Prometheus does."""
        return {
            tuple(
                sample.labels[key] for key in labels or ("host", "row", "feature") if key in sample.labels
            ): sample.value
            for family in parse_text(self.text())
            for sample in family.samples
            if sample.name == name
        }


NGINX = Blame("nginx[1@1]", "nginx", "cpu_user_ratio", 0.95, 0.1, 0.05, ("cpu",))


def joined(number: int = 1, *seen: tuple[str, float], blame: Blame | None = NGINX, live: bool = True) -> Incident:
    """An incident that these operators saw, the first of them first, with their scores; by default one."""
    evidence = tuple(
        Evidence(f"a{at}", operator, "process", TS + at, math.nan, score, young=False, sentence="", blame=blame)
        for at, (operator, score) in enumerate(seen or (("gaussian", 2.5),))
    )
    return Incident(
        id=f"{ANOMALY[:-1]}{number}", number=1, change="opened", ts=TS, opened_ts=TS + number, until_ts=math.nan,
        keyed_by="host", key="web-1", operator=evidence[0].operator, score=evidence[0].score, blame=blame,
        ranking=Ranking(TS, 2.5, (), 3600.0, young=False), sentence="", model_age_s=3600.0, young=False, live=live,
        evidence=evidence,
    )  # fmt: skip


TERM = Term("web-1/nginx:cpu_wait_ratio", 1.5, ())
MODEL = Model(
    "response_time_mean_s", "linear", 0.05, (TERM, replace(TERM, metric="db-1:disk_vda_busy_ratio")),
    0.97, math.nan, TS - 300.0, TS - 100.0, 20, (), "grown",
)  # fmt: skip


def predicted(value: float = 0.4, performance: str = "response_time_mean_s", key: str = "shop") -> PredictionOutput:
    return PredictionOutput(TS, "regression", key, performance, value, 0.35, 0.2, 0.9)


def explain(page: Page, key: str = "shop", model: Model = MODEL, *, built: bool = True) -> None:
    """An interval of an application: how slow it was, what a model said, and the model."""
    layout = make_layout((key,), (key,), ("response_time_mean_s",))
    measured = Frame("application", key, "performance", TS, 1, layout, np.array([[0.4]]))
    opened = OpenAnomaly(ANOMALY, TS, True, "web-1", "web-1", "pressure_cpu_some_ratio", 0.62, 0.02, 0.01)
    page.exporter.scored("regression", measured, Given([("web-1", 1.5)]), Anomalies(1, (opened,)))
    page.exporter.predicted(predicted(key=key))
    page.exporter.modelled(key, {model.performance: model}, [model] if built else [])


LEAK = Deviation(
    ("gunicorn[4711@99]",), "gunicorn", "leak", 2.5,
    (FeatureScore("memory_rss_bytes", 1.9e9, 2.1e8, 1.2e7, 3.0), FeatureScore("cpu_user_ratio", 0.1, 0.1, 0.05, 0.2)),
    TS - 360.0, math.nan, 48, 3.5, 98.0, "", 3600.0,
)  # fmt: skip
"""A member that leaks, in a pool of prefork workers."""


def compare(page: Page, *deviations: Deviation, key: str = "checkout", operator: str = "covariance") -> None:
    """A tick of a pool of three members that deviate like this."""
    compared = replace(frame(["gunicorn", "gunicorn", "arbiter"], "member", key), keyed_by="pool")
    page.exporter.scored(operator, compared, Given([("gunicorn", 2.5), ("arbiter", 0.1)]), CALM)
    page.exporter.compared(operator, key, 3, deviations)


SERVED = Request("wordpress", TS, "r1", 0.122, times_s={"RU": 0.102, "BP": 0.02}, name="GET /")


def serve(page: Page, score: float = 0.3, cluster: str = "", **changes: object) -> None:
    """A request that was judged like this; above 1 it is an outlier."""
    judged = RequestScore(score, False, int(score > 1.0), None, {}, 0.025, False)
    page.exporter.requested("requests", replace(SERVED, **changes), judged, cluster)  # type: ignore[arg-type]


def busy() -> Page:
    """One of everything, by hand."""
    page = Page()
    opened = OpenAnomaly(ANOMALY, TS - 60.0, True, "nginx[1@1]", "nginx", "cpu_user_ratio", 0.95, 0.1, 0.05)
    rows = [("nginx", 0.4), ("nginx", 1.5), ("kworker", 0.2), ('mean "name"\\\n', 0.7)]
    page.scored(rows, anomalies=Anomalies(2, (opened,)))
    page.scored([("host", 0.8)], scope="host")
    page.exporter.scored("saturation", frame(["host"], "host"), Kept({}), CALM)
    page.exporter.joined("host", "web-1", [joined(1, ("cpu", 1.2), ("gaussian", 2.5)), joined(2)], 2)
    page.exporter.joined("host", "web-1", [joined(2, ("gaussian", 2.5), ("cpu", 1.2))], 0)
    explain(page)
    of_host = Blame("web-1/nginx", "web-1", "cpu_wait_ratio", 0.62, 0.02, 0.01, ("cpu",))
    slow = joined(3, ("regression", 1.5), blame=of_host)
    evidence = tuple(replace(each, scope="performance") for each in slow.evidence)
    slow = replace(slow, keyed_by="application", key="shop", evidence=evidence)
    page.exporter.joined("application", "shop", [slow], 1)
    compare(page, LEAK)
    serve(page)
    serve(page, 7.5, "lock x.lock", request="r2", duration_s=0.51, times_s={"RU": 0.03, "BT": 0.48})
    page.exporter.marked("gaussian", Mark("web-1", TS, "slow"))
    page.exporter.received(
        own_frame("web-1", TS, dict(zip(OWN_FEATURES, (1.5, 1e6, 12, 800, 3, 0.97, 4, 2, 0.6), strict=True)))
    )
    page.exporter.received(host_frame({"cpu_busy_ratio": 0.5}))
    page.exporter.received(source_frame("prometheus", [2, 1, 0.012, 53, 4, 3, 0, 5, 1]))
    page.exporter.received(
        agent_frame([0.004, 31e6, 2e-3, 1e-3, 285, 1140, 3, 1, 2, 30, 7, 1, 0.25, 0.0, 2, 0.03, 1, 2, 24, 5])
    )
    task = page.telemetry.task("gaussian", Partition("laggard.counters", 0))
    for number, name in enumerate(field.name for field in dataclasses.fields(TaskTelemetry) if field.type == "int"):
        if name != "partition":
            setattr(task, name, 100 + number)
    for seconds in (0.0, 0.005, 0.02, 3.0, 1000.0):
        task.latency_seconds.add_record("web-1", TS - seconds, seconds)
        task.processing_seconds.add(seconds, times=2)
        task.commit_duration_seconds.add(seconds / 10)
    task.recovery_seconds = 1.5
    page.telemetry.retries, page.telemetry.fenced = 3, 1
    return page


def test_the_page_is_what_it_was(golden: Callable[[Path, str], None]) -> None:
    page = re.sub(r"(?m)^laggard_build_info{.*}", "laggard_build_info{}", busy().text())
    golden(Path(__file__).parent / "golden/metrics.txt", page)
    assert "@1" not in page, "not one id of a process is a label"


def test_the_document_is_current(golden: Callable[[Path, str], None]) -> None:
    golden(ROOT / "deploy/docs/reference/metrics.md", document())


def promtool_says(page: str) -> tuple[int, str]:
    done = subprocess.run(
        [path_of("promtool"), "check", "metrics"], input=page, text=True, capture_output=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_promtool_which_finds_fault_with_other_pages_has_nothing_to_say() -> None:
    assert promtool_says(busy().text()) == (0, "")
    code, said = promtool_says("# TYPE laggard_ticks counter\nlaggard_ticks 1\n")
    assert code != 0
    assert "laggard_ticks" in said


def test_every_metric_is_shown_once_with_its_labels() -> None:
    families = {family.name: family for family in busy().exporter.collect()}
    assert len(families) == len(METRICS)
    for metric in METRICS:
        family = families["laggard_" + metric.name]
        assert family.documentation == metric.help
        for sample in family.samples:
            assert sample.name.startswith(metric.exposed)
            labels = keyed_by_host(key for key in sample.labels if key != "le")
            if "application" in sample.labels and metric.name.startswith(("anomaly_", "incident_")):
                assert "resource" in labels, "what the host is short of"
                labels = tuple(key for key in labels if key != "resource")
            assert labels == keyed_by_host(metric.labels)


def keyed_by_host(labels: Iterable[str]) -> tuple[str, ...]:
    """Names of labels as if the stream were keyed by a host."""
    return tuple("host" if each in {"application", "pool", "service"} else each for each in labels)


@pytest.mark.parametrize(("open_metrics", "oracle"), [(False, generate_latest), (True, generate_openmetrics)])
def test_the_page_is_what_prometheus_client_writes(
    open_metrics: bool, oracle: Callable[[CollectorRegistry], bytes]
) -> None:
    page = busy()
    page.scored([(name, score) for score, name in enumerate(['"', "\\", "\\n", 'a\\"b', "日"])], host="\n")
    ProcessCollector(registry=page.registry)
    families = list(page.registry.collect())
    odd = Family("laggard_odd", 'with "quotes", \\ and\nlines', "gauge")
    for number, value in enumerate([math.inf, -math.inf, math.nan, 0, True, 1e-300, 1e6, 123456789.125, 1e22, -1e22]):
        odd.add_sample(odd.name, {"n": str(number)}, value)
    families.append(odd)

    class Frozen(Collector):
        def collect(self) -> Sequence[Family]:
            return families

    registry = CollectorRegistry()
    registry.register(Frozen())
    assert write_metrics(families, open_metrics=open_metrics) == oracle(registry)


def test_nothing_that_is_counted_is_hidden() -> None:
    shown = {metric.name for metric in METRICS if metric.labels == TASK_LABELS}
    # How many commits there were is the count of their durations.
    assert shown == {field.name for field in dataclasses.fields(TaskTelemetry)} - {*TASK_LABELS, "commits"}
    own = ("host",), (*AGENT_FEATURES, *OWN_FEATURES)
    for labels, features in (own, (("application", "source"), SOURCE_FEATURES)):
        assert {metric.feature for metric in METRICS if metric.feature and metric.labels == labels} == set(features)


@pytest.mark.parametrize("keyed_by", ["application", "pool"])
def test_each_source_is_shown_by_what_it_is_a_source_of(keyed_by: Literal["application", "pool"]) -> None:
    page = Page()
    for number, name in enumerate(("log", "prometheus")):
        given = source_frame(name, range(10 * number, 10 * number + len(SOURCE_FEATURES)))
        page.exporter.received(replace(given, keyed_by=keyed_by))
    page.exporter.received(replace(frame(["a"], "member", "shop"), keyed_by="pool"))
    shown = {
        (sample.name, sample.labels[keyed_by], sample.labels["source"]): sample.value
        for family in page.exporter.collect()
        for sample in family.samples
        if sample.name.startswith("laggard_source_")
    }
    assert len(shown) == 2 * len(SOURCE_FEATURES)
    assert shown["laggard_source_expected_places", "shop", "log"] == 0
    assert shown["laggard_source_failures_total", "shop", "prometheus"] == 15
    assert "laggard_score" not in page.text(), "of what was not scored"


def test_the_process_itself_is_shown_beside() -> None:
    page = busy()
    text = generate_latest(metrics_registry(page.exporter)).decode()
    names = {family.name for family in parse_text(text)} - {family.name for family in parse_text(page.text())}
    assert {"process_cpu_seconds", "process_resident_memory_bytes", "process_open_fds"} <= names


def test_nothing_yet() -> None:
    names = {family.name for family in Page().exporter.collect()}
    assert names == {"laggard_build", "laggard_frames_left_out", "laggard_retries", "laggard_fenced"}


def test_rows_of_one_name_are_one_series_and_the_rest_is_counted() -> None:
    page = Page(top_rows=2)
    scores = page.scored([("a", 0.1), *(("b", n / 10) for n in range(20)), ("c", 0.2), ("d", 0.3)])
    assert page.samples("laggard_row_score") == {("web-1", "b"): 1.9, ("web-1", "d"): 0.3}
    assert page.samples("laggard_feature_score") == {
        ("web-1", "b", "cpu_user_ratio"): 3.8,
        ("web-1", "b", "memory_rss_bytes"): 1.9,
        ("web-1", "d", "cpu_user_ratio"): 0.6,
        ("web-1", "d", "memory_rss_bytes"): 0.3,
    }
    assert page.samples("laggard_rows_left_out") == {("web-1",): 2}
    assert scores.asked == [4, 16, 23]  # the first twenty are all called b


def test_not_all_rows_are_ranked_where_a_few_are_enough() -> None:
    page = Page(top_rows=2)
    scores = page.scored([(f"row-{n}", n) for n in range(100)])
    assert scores.asked == []
    page.text()
    page.text()
    assert scores.asked == [4]  # at the first scrape only


@pytest.mark.parametrize("top_rows", [0, 1, 1000])
@pytest.mark.parametrize("rows", [[], [("a", 0.5)], [("a", math.nan), ("a", 0.5)], [("a", math.nan)]])
def test_degenerate_rankings(top_rows: int, rows: list[tuple[str, float]]) -> None:
    page = Page(top_rows)
    page.scored(rows)
    scored = {name for name, score in rows if not math.isnan(score)}
    expected = {("web-1", name): 0.5 for name in list(scored)[:top_rows]}
    assert page.samples("laggard_row_score") == expected
    assert page.samples("laggard_rows_left_out") == {("web-1",): len({name for name, _ in rows}) - len(expected)}
    assert page.samples("laggard_score") == {("web-1",): 1.5}


def test_an_operators_answer_is_shown_as_it_was_given() -> None:
    names = [f"worker-{number}" for number in range(30)]
    layout = make_layout([f"{name}[1@1]" for name in names], names, [f"feature_{number}" for number in range(12)])
    noise = np.random.default_rng(1)
    gaussian = Gaussian()
    pages = Page(), Page()
    for tick in range(300):
        values = noise.normal(5.0, 1.0, (30, 12))
        values[7, 3] += 100.0 * (tick == 200)
        now = dataclasses.replace(frame([]), ts=TS + tick, layout=layout, values=values)
        scores = gaussian.score(now.ts, layout, values)
        if tick == 200:
            for page in pages:
                page.exporter.scored("gaussian", now, scores, CALM)
            before = pages[0].text()
        gaussian.learn(now.ts, layout, values)
    assert pages[1].text() == before  # though the operator has learned a hundred more
    worst = pages[1].samples("laggard_row_score")["web-1", "worker-7"]
    assert worst == pytest.approx(pages[1].samples("laggard_score")["web-1",])
    assert ("web-1", "worker-7", "feature_3") in pages[1].samples("laggard_feature_score")
    assert pages[1].samples("laggard_rows_left_out") == {("web-1",): 28}


def test_rows_that_are_compared_with_a_limit_are_shown_where_they_come_near_it_and_it_is_not_what_is_usual() -> None:
    page, operator = Page(), Cpu()
    layout = make_layout(["java[7@1]", "sh[8@1]"], ["java", "sh"], ["cpu_user_ratio", "cpus"])
    for number in range(8):
        given = Frame("host", "web-1", "process", TS + number, 1, layout, np.array([[3.8, 4.0], [0.1, 4.0]]))
        page.exporter.scored("cpu", given, operator.score(given.ts, layout, given.values), CALM)
        operator.learn(given.ts, layout, given.values)
    assert page.samples("laggard_row_score") == {("web-1", "java"): pytest.approx(1.95)}
    assert page.samples("laggard_feature_value") == {("web-1", "java", "cpu_system_wide_ratio"): 0.95}
    assert page.samples("laggard_feature_usual") == {}


def test_values_that_are_not_there_are_not_shown() -> None:
    page = Page()
    page.exporter.received(agent_frame([math.nan] * 4 + [285.0] + [math.nan] * (len(AGENT_FEATURES) - 5)))
    page.exporter.received(frame(["nginx"]))
    page.exporter.received(dataclasses.replace(agent_frame([0.0] * len(AGENT_FEATURES)), values=np.zeros((0, 14))))
    page.exporter.received(own_frame("web-1", TS, {"trace_events": 1e6, "trace_recorded_ratio": 0.97}))
    assert page.samples("laggard_agent_processes") == {("web-1",): 285}
    assert page.samples("laggard_agent_cpu_ratio") == {}
    assert page.samples("laggard_trace_events_total") == {("web-1",): 1e6}
    assert page.samples("laggard_trace_recorded_ratio") == {("web-1",): 0.97}
    assert page.samples("laggard_trace_cpu_seconds_total") == {}


def test_the_newest_frame_counts() -> None:
    page = Page()
    page.scored([("a", 0.5)])
    page.scored([("b", 0.6)])
    assert page.samples("laggard_row_score") == {("web-1", "b"): 0.6}


def test_at_most_three_features_of_a_row_with_what_is_usual() -> None:
    page = Page()
    told = (
        FeatureScore("a_ratio", 0.5, 0.1, 0.05, 9.0),
        FeatureScore("b_ratio\x01", 0.4, 0.2, 0.0, 8.0, recent=0.3),
        FeatureScore("b_ratio\x02", 7.0, 7.0, 7.0, 7.0),
        FeatureScore("c_ratio", 0.3, math.nan, math.nan, 6.0),
    )
    scores = Given([("row", 1.5)])
    scores._rows = [dataclasses.replace(scores._rows[0], features=told)]
    page.exporter.scored("gaussian", frame(["row"]), scores, CALM)
    rows = {
        name: {labels[2]: value for labels, value in page.samples(f"laggard_feature_{name}").items()}
        for name in ("score", "value", "usual", "usual_deviation")
    }
    assert rows == {
        "score": {"a_ratio": 9.0, "b_ratio\ufffd": 8.0},
        "value": {"a_ratio": 0.5, "b_ratio\ufffd": 0.4},
        "usual": {"a_ratio": 0.1, "b_ratio\ufffd": 0.2},
        "usual_deviation": {"a_ratio": 0.05, "b_ratio\ufffd": 0.0},
    }
    scores._rows = [dataclasses.replace(scores._rows[0], features=told[3:])]
    page.exporter.scored("gaussian", frame(["row"]), scores, CALM)
    assert page.samples("laggard_feature_value") == {("web-1", "row", "c_ratio"): 0.3}
    assert page.samples("laggard_feature_usual") == {}


ANOMALY_METRICS = [metric.name for metric in METRICS if metric.name.startswith("anomaly_")]


def test_an_anomaly_has_series_while_it_is_open() -> None:
    page = Page()
    page.scored([("a", 0.5)])
    assert page.samples("laggard_anomalies_open") == {("web-1",): 0}
    assert page.samples("laggard_anomalies_opened_total") == {("web-1",): 0}
    opened = OpenAnomaly(ANOMALY, TS, True, "a[1@1]", "a\x01", "memory_rss_bytes", 9e6, 1e6, 2e5)
    page.scored([("b", 0.7)], anomalies=Anomalies(3, (opened,)))
    which = ("web-1", "a\ufffd", "memory_rss_bytes")
    assert {name: page.samples(f"laggard_{name}") for name in ANOMALY_METRICS} == {
        "anomaly_score": {which: 1.5},
        "anomaly_value": {which: 9e6},
        "anomaly_usual": {which: 1e6},
        "anomaly_usual_deviation": {which: 2e5},
        "anomaly_start_timestamp_seconds": {which: TS},
    }
    assert page.samples("laggard_anomalies_open") == {("web-1",): 1}
    page.scored([("b", 0.7)], anomalies=Anomalies(3, ()))
    assert not any(page.samples(f"laggard_{name}") for name in ANOMALY_METRICS)
    assert page.samples("laggard_anomalies_open") == {("web-1",): 0}
    assert page.samples("laggard_anomalies_opened_total") == {("web-1",): 3}


class Kept(Given, LastingScores):
    """Scores of an operator that keeps anomalies open itself."""

    def __init__(self, opened: dict[str, Open]) -> None:
        super().__init__([("a", 0.5)])
        self.sudden = 0.4
        self._open = opened

    @property
    def open(self) -> dict[str, Open]:
        return self._open

    def about(self, anomaly: str, rows: int, features: int) -> Ranking:
        raise NotImplementedError


NOTICE = Course(
    id=ANOMALY, keyed_by="host", opened_ts=TS, live=True, until_ts=TS, score=1.2, told_score=1.2, looked_ts=TS,
    number=0, changes=0, next_s=900.0, causes=(), blame=NGINX, age_s=3600.0, young=False,
)  # fmt: skip


def status(page: Page, key: str = "web-1") -> list[str]:
    """The status of a host as it is shown; several are a mistake."""
    shown = page.samples("laggard_status", "host", "status").items()
    found = {each: value for (host, each), value in shown if host == key}
    assert found.keys() == set(STATUSES)
    return [each for each, value in found.items() if value]


def test_the_status_of_a_host_follows_its_incidents_and_notices() -> None:
    page = Page()
    page.scored([("a", 0.5)])
    assert status(page) == ["calm"]
    assert page.samples("laggard_notices_opened_total") == {}, "it has no notices"
    page.exporter.scored("gaussian", frame(["a"]), Kept({}), CALM)
    assert page.samples("laggard_notices_opened_total") == {("web-1",): 0}
    page.exporter.scored("gaussian", frame(["a"]), Kept({}), CALM._replace(notices=Notices(3, NOTICE)))
    assert status(page) == ["suspicious"]
    assert page.samples("laggard_notices_opened_total") == {("web-1",): 3}
    page.scored([("a", 0.5)], anomalies=CALM._replace(notices=Notices(3, NOTICE._replace(live=False))))
    assert status(page) == ["calm"], "of recorded data"
    page.exporter.joined("host", "web-1", [joined(1, ("saturation", 1.2))], 1)
    assert status(page) == ["saturated"]
    # The anomaly is there before its incident.
    page.scored([("a", 1.5)], anomalies=Anomalies(1, (OpenAnomaly(ANOMALY, TS, live=True),)))
    assert status(page) == ["incident"]
    page.scored([("a", 0.5)], anomalies=Anomalies(1, ()))
    page.exporter.joined("host", "web-1", [joined(1), joined(2, ("saturation", 1.2))], 1)
    assert status(page) == ["incident"]
    page.exporter.joined("host", "web-1", [], 0)
    assert status(page) == ["calm"]


def test_a_host_whose_model_is_young_is_learning() -> None:
    page = Page()
    page.exporter.scored("gaussian", frame(["a"]), Given([("a", 0.5)], young=True), CALM)
    page.scored([("a", 0.5)], host="web-2")
    page.exporter.received(host_frame({"cpu_busy_ratio": 0.5}))
    assert (status(page), status(page, "web-2")) == (["learning"], ["calm"])


def test_of_several_open_anomalies_each_has_its_series() -> None:
    page = Page()
    lasts = OpenAnomaly("a2", TS + 1, True, "b[2@1]", "b", "cpu_user_ratio", 0.9, 0.1, 0.05, own="b[2@1] 9.0")
    sudden = OpenAnomaly("a1", TS, True, "a[1@1]", "a", "memory_rss_bytes", 9e6, 1e6, 2e5)
    # One that looks like an older one, and one that is not live, have none.
    alike, recorded = lasts._replace(id="a3", ts=TS + 2, own="b[3@1] 9.0"), lasts._replace(live=False, name="c")
    kept = Kept({"b[2@1] 9.0": Open(TS + 1, 2.5), "b[3@1] 9.0": Open(TS + 2, 7.5)})
    page.exporter.scored("gaussian", frame(["a"]), kept, Anomalies(4, (lasts, sudden, alike, recorded)))
    assert page.samples("laggard_anomalies_open") == {("web-1",): 3}
    first, second = ("web-1", "b", "cpu_user_ratio"), ("web-1", "a", "memory_rss_bytes")
    assert {name: page.samples(f"laggard_{name}") for name in ANOMALY_METRICS} == {
        "anomaly_score": {first: 2.5, second: 0.4},
        "anomaly_value": {first: 0.9, second: 9e6},
        "anomaly_usual": {first: 0.1, second: 1e6},
        "anomaly_usual_deviation": {first: 0.05, second: 2e5},
        "anomaly_start_timestamp_seconds": {first: TS + 1, second: TS},
    }


def test_of_many_open_anomalies_the_oldest_have_series() -> None:
    page = Page()
    names = [f"p{number}" for number in range(MOST_OPEN + 5)]
    opened = tuple(OpenAnomaly(name, TS, True, f"{name}[1@1]", name, "threads", own=name) for name in names)
    kept = Kept({name: Open(TS, 2.0) for name in names})
    page.exporter.scored("gaussian", frame(["a"]), kept, Anomalies(len(opened), opened))
    assert page.samples("laggard_anomalies_open") == {("web-1",): MOST_OPEN + 5}
    assert page.samples("laggard_anomaly_score") == {("web-1", name, "threads"): 2.0 for name in names[:MOST_OPEN]}


@pytest.mark.parametrize(
    ("opened", "shown"),
    [
        (
            OpenAnomaly("", TS, live=True),
            {
                "anomalies_open": {("web-1",): 1},
                "anomaly_score": {("web-1", "", ""): 1.5},
                "anomaly_start_timestamp_seconds": {("web-1", "", ""): TS},
            },
        ),
        (OpenAnomaly(ANOMALY, TS, live=False), {"anomalies_open": {("web-1",): 0}}),
    ],
    ids=["one without evidence", "none of recorded data"],
)
def test_an_anomaly_is_shown_as_far_as_it_is_known_and_live(
    opened: OpenAnomaly, shown: dict[str, dict[tuple[str, ...], float]]
) -> None:
    page = Page()
    page.scored([("a", 0.5)], anomalies=Anomalies(int(opened.live), (opened,)))
    found = {name: page.samples(f"laggard_{name}") for name in ("anomalies_open", *ANOMALY_METRICS)}
    assert {name: samples for name, samples in found.items() if samples} == shown
    assert " # " not in generate_openmetrics(page.registry).decode()


def incident_samples(page: Page) -> dict[str, dict[tuple[str, ...], float]]:
    """Of each metric of joined incidents: labels but for the host -> value."""
    families = parse_text(page.text())
    return {
        family.name.removeprefix("laggard_"): {
            tuple(value for name, value in sorted(sample.labels.items()) if name != "host"): sample.value
            for sample in family.samples
        }
        for family in families
        if family.name.startswith("laggard_incident")
    }


def test_a_joined_incident_has_series_while_it_is_open_by_who_saw_it() -> None:
    page = Page()
    page.exporter.joined("host", "web-1", [joined(1, ("cpu", 1.2), ("gaussian", 2.5), ("cpu", 1.1))], 1)
    which = ("cpu_user_ratio", "nginx", "process")
    assert incident_samples(page) == {
        "incidents_open": {(): 1},
        "incidents": {(): 1},
        "incidents_dismissed": {(): 0},
        "incident_score": {
            ("cpu_user_ratio", "cpu", "nginx", "process"): 1.2,
            ("cpu_user_ratio", "gaussian", "nginx", "process"): 2.5,
        },
        "incident_value": {which: 0.95},
        "incident_usual": {which: 0.1},
        "incident_usual_deviation": {which: 0.05},
        "incident_start_timestamp_seconds": {which: TS + 1},
    }
    page.exporter.joined("host", "web-1", [], 0)
    assert incident_samples(page) == {
        "incidents_open": {(): 0},
        "incidents": {(): 1},
        "incidents_dismissed": {(): 0},
        "incidents_closed": {("cpu,gaussian",): 1},
    }
    page.exporter.joined("host", "web-1", [joined(2), joined(3)], 2)
    page.exporter.joined("host", "web-1", [joined(3)], 0)
    page.exporter.joined("host", "web-1", [], 0)
    assert incident_samples(page)["incidents"] == {(): 3}
    assert incident_samples(page)["incidents_closed"] == {("cpu,gaussian",): 1, ("gaussian",): 2}


def test_what_people_called_false_is_counted() -> None:
    page = Page()
    page.exporter.joined("host", "web-1", [joined(1)], 1)
    page.exporter.dismissed("host", "web-1")
    page.exporter.joined("host", "web-1", [], 0)
    assert incident_samples(page)["incidents_dismissed"] == {(): 1}
    page.exporter.dismissed("host", "web-2")
    page.exporter.parted(["web-1", "web-2"])
    assert incident_samples(page) == {}


def test_a_worker_that_takes_incidents_over_shows_them_and_counts_none() -> None:
    page = Page()
    page.exporter.joined("host", "web-1", [joined(1)], 0)
    assert incident_samples(page)["incidents_open"] == {(): 1}
    assert incident_samples(page)["incidents"] == {(): 0}
    page.exporter.parted(["web-1", "unknown"])
    assert incident_samples(page) == {}
    page.exporter.joined("host", "web-1", [], 0)
    assert "incidents_closed" not in incident_samples(page), "it was closed somewhere else"


def test_incidents_without_a_culprit_are_shown_and_those_of_recorded_data_are_not() -> None:
    page = Page()
    page.exporter.joined("host", "web-1", [joined(1, ("gaussian", math.nan), blame=None), joined(2, live=False)], 1)
    found = incident_samples(page)
    assert found["incidents_open"] == {(): 1}
    assert found["incident_score"] == {("", "gaussian", "", "process"): math.inf}
    assert found["incident_start_timestamp_seconds"] == {("", "", "process"): TS + 1}
    assert "incident_value" not in found


def test_a_host_that_has_frames_has_a_count_of_incidents_from_the_beginning_on() -> None:
    page = Page()
    page.scored([("a", 0.5)])
    assert incident_samples(page) == {"incidents_open": {(): 0}, "incidents": {(): 0}, "incidents_dismissed": {(): 0}}
    page.exporter.joined("host", "web-1", [joined(1)], 1)
    assert incident_samples(page)["incidents"] == {(): 1}


def test_of_incidents_that_look_alike_the_oldest_has_the_series() -> None:
    page = Page()
    alike = dataclasses.replace(NGINX, name="nginx\x01"), dataclasses.replace(NGINX, name="nginx\x02")
    page.exporter.joined("host", "web-1", [joined(2, blame=alike[0]), joined(1, blame=alike[1])], 2)
    which = ("cpu_user_ratio", "nginx\ufffd", "process")
    assert incident_samples(page)["incident_start_timestamp_seconds"] == {which: TS + 1}
    assert incident_samples(page)["incidents_open"] == {(): 2}


def test_examples_are_in_open_metrics_alone() -> None:
    page = busy()
    families = {family.name: family for family in parse_openmetrics(generate_openmetrics(page.registry).decode())}
    given = {
        (sample.labels["le"], *sample.exemplar.labels.items(), sample.exemplar.value, float(sample.exemplar.timestamp))
        for sample in families["laggard_latency_seconds"].samples
        if sample.exemplar
    }
    assert given == {
        ("0.005", ("host", "web-1"), 0.005, TS - 0.005),  # the newer of two
        ("0.025", ("host", "web-1"), 0.02, TS - 0.02),
        ("5.0", ("host", "web-1"), 3.0, TS - 3.0),
        ("+Inf", ("host", "web-1"), 1000.0, TS - 1000.0),
    }
    (exemplar,) = [
        sample.exemplar
        for sample in families["laggard_anomalies_opened"].samples
        if sample.exemplar and "host" in sample.labels
    ]
    assert (exemplar.labels, exemplar.value, float(exemplar.timestamp)) == ({"anomaly": ANOMALY}, 1.0, TS - 60.0)
    (exemplar,) = [
        sample.exemplar
        for sample in families["laggard_incidents"].samples
        if sample.exemplar and "host" in sample.labels
    ]
    assert (exemplar.labels, exemplar.value, float(exemplar.timestamp)) == ({"incident": joined(2).id}, 1.0, TS + 2)
    assert " # " not in page.text()
    assert sum(sample.exemplar is not None for family in families.values() for sample in family.samples) == 9


def test_an_example_is_never_too_long_for_a_reader() -> None:
    page = Page()
    task = page.telemetry.task("gaussian", Partition("laggard.counters", 0))
    task.latency_seconds.add_record("h\x01" * 1000, TS, 0.1)
    assert "laggard_latency_seconds_count" in generate_openmetrics(page.registry).decode()
    families = list(parse_openmetrics(generate_openmetrics(page.registry).decode()))  # it refuses more than 128
    assert any(sample.exemplar for family in families for sample in family.samples)


def test_the_hosts_own_counters_are_a_fixed_list() -> None:
    values = {
        "disk_sda_read_bytes_per_s": 10.0,
        "disk_sdb_read_bytes_per_s": 5.0,
        "disk_sda_busy_ratio": 0.25,
        "disk_sdb_busy_ratio": 0.75,
        "disk_sda_write_bytes_per_s": math.nan,
        "network_lo_receive_bytes_per_s": 1e9,
        "network_eth0_receive_bytes_per_s": 7.0,
        "load_1m": 1.5,
        "cpu_busy_ratio": math.nan,
        "switches_per_s": 1e4,
    }
    page = Page()
    page.exporter.received(host_frame(values))
    shown = {feature: value for (_, feature), value in page.samples("laggard_host_value").items()}
    assert shown == {
        "disk_read_bytes_per_s": 15.0,
        "disk_busy_ratio": 0.75,
        "network_receive_bytes_per_s": 7.0,
        "load_1m": 1.5,
    }
    assert page.samples("laggard_score") == {}
    page = Page()
    for operator in ("gaussian", "river"):
        page.exporter.scored(operator, host_frame({"load_1m": 2.5}), Given([("host", 0.5)]), CALM)
    assert page.samples("laggard_host_value") == {("web-1", "load_1m"): 2.5}


def test_an_agent_has_the_counters_that_are_shown() -> None:
    page = Page()

    def publish(records: Sequence[Frame | Mark]) -> None:
        for each in records:
            if isinstance(each, Frame):
                page.exporter.received(each)

    agent = Agent(publish, "me")
    shown: set[str] = set()
    for _ in range(200):  # until the kernel, which counts CPU time in steps of 10 ms, has counted some
        agent.tick()
        shown = {feature for _, feature in page.samples("laggard_host_value")}
        if "cpu_busy_ratio" in shown:
            break
        time.sleep(0.02)
    agent.close()
    assert shown <= {*HOST_FEATURES, *(f"{kind}_{end}" for kind, end in HOST_DEVICES)}
    # Machines without disks, networks and pressure stall information still have the others.
    assert shown >= {
        "cpus",
        "cpu_busy_ratio",
        "cpu_steal_ratio",
        "load_1m",
        "memory_available_bytes",
        "swap_used_bytes",
    }


def test_marks_are_counted_once_whoever_sees_them() -> None:
    page = Page()
    page.scored([("a", 0.5)])
    page.scored([("a", 0.5)], host="web-2")
    assert page.samples("laggard_marks_total") == {("web-1",): 0, ("web-2",): 0}
    for operator in ("gaussian", "river"):
        page.exporter.marked(operator, Mark("web-1", TS, "slow"))
    page.exporter.marked("river", Mark("web-1", TS, "slower"))
    page.exporter.marked("river", Mark("unknown", TS, "slow"))
    assert page.samples("laggard_marks_total") == {("web-1",): 2, ("web-2",): 0}


@pytest.mark.parametrize(
    ("module", "show", "name", "label"),
    [
        (shown_incidents, lambda page, key: page.exporter.joined("host", key, [], 1), "incidents_total", "host"),
        (shown_models, explain, "performance_value", "application"),
        (shown_pools, lambda page, key: compare(page, key=key), "pool_members", "pool"),
        (shown_requests, lambda page, key: serve(page, service=key), "requests_total", "service"),
    ],
    ids=["incidents of hosts", "models of applications", "pools", "services"],
)
def test_of_more_keys_than_there_is_room_for_those_that_were_heard_last_are_shown(
    module: ModuleType, show: Callable[[Page, str], None], name: str, label: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_STREAMS", 2)
    page = Page()
    for key in ("a", "b", "a", "c"):
        show(page, key)
    assert page.samples(f"laggard_{name}", label).keys() == {("a",), ("c",)}


def test_the_hosts_whose_marks_are_counted_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporter, "MAX_STREAMS", 50)
    page = Page()
    for number in range(1000):
        page.exporter.marked("gaussian", Mark(f"h{number}", TS, "slow"))
    page.scored([("a", 0.5)], host="h999")
    page.scored([("a", 0.5)], host="h0")
    assert page.samples("laggard_marks_total") == {("h0",): 0, ("h999",): 1}
    assert len(page.exporter._marks) == 50


def test_what_a_model_says_is_shown_also_where_nothing_was_measured() -> None:
    page = Page()
    explain(page)
    page.exporter.predicted(replace(predicted(math.nan, "throughput_per_s"), predicted=90.0))
    shown = {name: page.samples(f"laggard_performance_{name}", "performance") for name in ("value", "predicted")}
    assert shown == {
        "value": {("response_time_mean_s",): 0.4},
        "predicted": {("response_time_mean_s",): 0.35, ("throughput_per_s",): 90.0},
    }


def test_models_are_counted_by_reason_and_those_that_were_there_are_not() -> None:
    page = Page()
    explain(page, built=False)
    reasons = ("first", "grown", "changed", "poor", "wish")
    assert page.samples("laggard_performance_models_built_total", "reason") == {(each,): 0.0 for each in reasons}
    explain(page)
    explain(page, model=replace(MODEL, reason="changed"))
    assert page.samples("laggard_performance_models_built_total", "reason") == {
        **{(each,): 0.0 for each in reasons},
        ("grown",): 1.0,
        ("changed",): 1.0,
    }


def test_of_many_metrics_in_a_model_some_are_shown() -> None:
    page = Page()
    terms = tuple(replace(TERM, metric=f"web-{number}:cpu_busy_ratio") for number in range(20))
    explain(page, model=replace(MODEL, terms=terms))
    shown = page.samples("laggard_performance_model_term_info", "host")
    assert list(shown) == [(f"web-{number}",) for number in range(TOP_TERMS)]


def test_models_of_an_application_that_is_silent_or_elsewhere_are_not_shown() -> None:
    page = Page()
    explain(page)
    explain(page, "blog")
    page.exporter.lost("gaussian", ["shop"])
    assert page.samples("laggard_performance_value", "application").keys() == {("shop",), ("blog",)}
    page.exporter.lost("regression", ["shop"])
    assert page.samples("laggard_performance_value", "application").keys() == {("blog",)}
    explain(page, built=False)
    assert sum(page.samples("laggard_performance_models_built_total", "application", "reason").values()) == 1.0, (
        "shop's count is anew"
    )
    page.clock.now += STALE_S + 1.0
    assert page.samples("laggard_performance_value", "application") == {}


def test_members_are_counted_once_by_each_kind_and_a_kind_that_is_over_is_zero() -> None:
    page = Page(top_rows=5)
    rows = ("gunicorn[4711@99]", "gunicorn[4712@99]")
    wave = replace(LEAK, rows=rows, name="wave 3", score=4.0)
    busy = replace(LEAK, rows=rows[:1], kind="busy")
    young = replace(LEAK, rows=rows[1:], kind="younger", score=0.2)
    unremarkable = replace(LEAK, rows=("gunicorn[1@1]",), kind="stuck", score=1.0)
    compare(page, wave, LEAK, busy, unremarkable, young)
    assert page.samples("laggard_pool_deviating", "kind") == {("leak",): 2, ("busy",): 1, ("younger",): 1}
    assert [kind for (kind,) in page.samples("laggard_pool_deviation_score", "kind")] == ["leak", "busy", "younger"]
    compare(page, busy)
    assert page.samples("laggard_pool_deviating", "kind") == {("leak",): 0, ("busy",): 1, ("younger",): 0}


def test_no_process_id_is_a_label_and_what_looks_alike_is_one_series() -> None:
    page = Page()
    groups = [replace(LEAK, name=f"web-1/java[{pid}@993]", score=9.0 - pid) for pid in range(3)]
    compare(page, *groups, replace(LEAK, name="pool[a]", features=()), replace(LEAK, name="\x01", begin_ts=math.nan))
    assert page.samples("laggard_pool_deviation_score", "member", "feature") == {
        ("web-1/java", "memory_rss_bytes"): 9.0,
        ("pool[a]", ""): 2.5,
    }
    assert page.samples("laggard_pool_deviations_left_out", "pool") == {("checkout",): 1}, (
        "of three names, two are shown"
    )
    blame = Blame("java[812@993]/exec-1[815@994]", "java[812@993]/exec", "cpu_user_ratio", 0.9, 0.1, 0.05)
    page.exporter.joined("pool", "checkout", [replace(joined(1, blame=blame), keyed_by="pool", key="checkout")], 1)
    opened = OpenAnomaly(ANOMALY, TS, True, blame.row, blame.name, "cpu_user_ratio", 0.9, 0.1, 0.05)
    of_pool = replace(frame(["exec-1"], "member", "checkout"), keyed_by="pool")
    page.exporter.scored("covariance", of_pool, Given([("exec-1", 2.5)]), Anomalies(1, (opened,)))
    assert re.findall(r'(?m)^laggard_(?:incident|anomaly)_score{.*row="(.*?)"', page.text()) == ["java/exec"] * 2


def test_pools_that_are_silent_or_elsewhere_are_not_shown() -> None:
    page = Page()
    compare(page, LEAK)
    compare(page, key="carts")
    compare(page, key="checkout", operator="another")
    page.exporter.lost("gaussian", ["checkout", "carts"])
    assert page.samples("laggard_pool_members", "pool").keys() == {("checkout",), ("carts",)}
    page.exporter.lost("covariance", ["checkout"])
    assert page.samples("laggard_pool_deviation_score", "pool") == {}
    assert page.samples("laggard_pool_members", "pool").keys() == {("checkout",), ("carts",)}, (
        "another operator has it still"
    )
    page.clock.now += STALE_S + 1.0
    assert page.samples("laggard_pool_members", "pool") == {}


def test_what_another_worker_has_is_not_shown() -> None:
    page = Page()
    for host in ("web-1", "web-2"):
        page.scored([("a", 0.5)], host=host)
        page.exporter.received(agent_frame([0.0] * len(AGENT_FEATURES), host))
        page.exporter.marked("gaussian", Mark(host, TS, "slow"))
    page.exporter.scored("river", frame(["a"]), Given([("a", 0.5)]), CALM)
    page.exporter.lost("gaussian", ["web-1", "unknown"])
    assert set(page.samples("laggard_agent_processes")) == {("web-2",)}
    assert re.findall(r'(?m)^laggard_score{host="(.*?)",operator="(.*?)"', page.text()) == [
        ("web-1", "river"),
        ("web-2", "gaussian"),
    ]
    assert page.samples("laggard_marks_total") == {("web-1",): 0, ("web-2",): 1}


def test_the_page_does_not_depend_on_the_order_of_what_comes() -> None:
    texts = set()
    for hosts in (["a", "b", "c"], ["c", "a", "b"]):
        page = Page()
        for host in hosts:
            page.scored([("x", 0.5), ("y", 0.7)], host=host)
            page.scored([("host", 0.7)], host=host, scope="host")
            page.exporter.marked("gaussian", Mark(host, TS, "slow"))
            page.exporter.received(agent_frame([0.0] * len(AGENT_FEATURES), host))
            page.telemetry.task("gaussian", Partition("laggard.counters", ord(host))).records += 1
        texts.add(page.text())
    assert len(texts) == 1


def test_silent_streams_go() -> None:
    page = Page()
    page.scored([("a", 0.5)])
    page.clock.now += STALE_S - 1
    page.scored([("a", 0.5)], host="web-2")
    page.clock.now += 1
    assert page.samples("laggard_score") == {("web-1",): 1.5, ("web-2",): 1.5}
    page.clock.now += 1
    assert page.samples("laggard_score") == {("web-2",): 1.5}


def test_slow_ticks_are_not_silence() -> None:
    page = Page()
    for _ in range(2):
        page.scored([("a", 0.5)])
        page.clock.now += 3600
    page.clock.now += 2 * 3600
    assert page.samples("laggard_score") == {("web-1",): 1.5}
    page.clock.now += 1
    assert page.samples("laggard_score") == {}


def test_the_number_of_streams_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporter, "MAX_STREAMS", 50)
    page = Page()
    first = [f"host-{number}" for number in range(50)]
    for host in (*first, "a", "b", "a", *first):
        page.scored([("row", 0.5)], host=host)
    assert set(page.samples("laggard_score")) == {(host,) for host in first}
    assert page.samples("laggard_frames_left_out_total") == {(): 3}
    page.clock.now += STALE_S + 1
    page.scored([("row", 0.5)], host="a")
    assert set(page.samples("laggard_score")) == {("a",)}


def test_keys_that_look_alike_do_not_spoil_the_page() -> None:
    page = Page()
    page.scored([("row\x01", 0.5), ("row\x02", 0.7)], host="web\x01")
    page.scored([("row", 0.9)], host="web\x02")
    assert page.samples("laggard_score") == {("web\ufffd",): 1.5}
    assert page.samples("laggard_row_score")["web\ufffd", "row\ufffd"] == 0.7


def test_an_application_may_be_called_as_a_host_is() -> None:
    page = Page()
    page.scored([("row", 0.5)])
    other = dataclasses.replace(frame(["row"]), keyed_by="application")
    page.exporter.scored("gaussian", other, Given([("row", 0.5)]), CALM)
    assert 'laggard_score{application="web-1",operator="gaussian",scope="process"} 1.5' in page.text()
    assert 'laggard_score{host="web-1",operator="gaussian",scope="process"} 1.5' in page.text()


@given(st.text(st.characters(codec=None), max_size=3 * MAX_LABEL))
def test_any_name_is_a_label_that_is_read_back(name: str) -> None:
    page = Page()
    page.exporter.scored("gaussian", frame(["a"], host=name), Given([("a", 0.5)]), CALM)
    assert list(page.samples("laggard_score")) == [(label(name),)]
    assert len(label(name)) <= MAX_LABEL


def test_an_ordinary_name_stays_unchanged() -> None:
    for name in ("nginx", "kworker/0:1", "日本語 Content", 'a "quoted" \\ name', "x" * MAX_LABEL):
        assert label(name) == name
    assert label("x" * 101) == "x" * 99 + "…"
    assert label("a\nb\x1b\udcff") == "a\ufffdb\ufffd\ufffd"


@pytest.mark.slow
def test_scrapes_while_frames_come() -> None:
    page = Page(top_rows=5)
    done = threading.Event()
    failed: list[Exception] = []

    def scrape() -> None:
        try:
            while not done.is_set():
                page.text()
        except Exception as error:  # noqa: BLE001 - reported by the assertion
            failed.append(error)

    scraping = threading.Thread(target=scrape)
    scraping.start()
    for number in range(300):
        page.scored([("a", 0.5), ("b", 0.7)], host=f"host-{number}")
        page.telemetry.task("gaussian", Partition("laggard.counters", number)).latency_seconds.add(0.1)
    done.set()
    scraping.join()
    assert failed == []
    assert len(page.samples("laggard_score")) == 300


def test_requests_are_counted_by_cluster_and_by_whether_they_are_outliers() -> None:
    page = Page()
    for number in range(5):
        serve(page, request=f"r{number}")
    for number in range(3):
        serve(page, 2.0 + number, "lock x.lock", duration_s=0.51, times_s={"RU": 0.03, "BT": 0.48})
    serve(page, 1.5, "", service="shop")
    assert page.samples("laggard_requests_total", "service") == {("wordpress",): 8, ("shop",): 1}
    assert page.samples("laggard_requests_outlying_total", "service", "row") == {
        ("wordpress", "lock x.lock"): 3,
        ("shop", ""): 1,
    }
    durations = page.samples("laggard_request_duration_seconds_bucket", "service", "outlying", "le")
    assert durations["wordpress", "0", "0.1"] == 0
    assert durations["wordpress", "0", "0.25"] == durations["wordpress", "0", "+Inf"] == 5
    assert durations["wordpress", "1", "0.5"] == 0
    assert durations["wordpress", "1", "1.0"] == durations["wordpress", "1", "+Inf"] == 3
    assert durations["shop", "0", "+Inf"] == 0, "it is there before the first one, so that this is an increase"
    sums = page.samples("laggard_request_duration_seconds_sum", "service", "outlying")
    assert sums["wordpress", "1"] == pytest.approx(1.53)
    states = page.samples("laggard_request_state_seconds_total", "service", "state", "outlying")
    assert states["wordpress", "BT", "1"] == pytest.approx(1.44)
    assert states["wordpress", "RU", "0"] == pytest.approx(0.51)
    assert sum(
        value for (service, _, outlying), value in states.items() if (service, outlying) == ("wordpress", "1")
    ) == (pytest.approx(sums["wordpress", "1"]))


def test_the_score_of_a_service_is_that_of_its_worst_request_lately() -> None:
    page = Page()
    serve(page, 7.5, ts=TS)
    serve(page, 0.2, ts=TS + 1.0)
    assert page.samples("laggard_request_score", "service") == {("wordpress",): 7.5}
    serve(page, 0.4, ts=TS + WORST_S)
    assert page.samples("laggard_request_score", "service") == {("wordpress",): 7.5}
    serve(page, math.nan, ts=TS + 2 * WORST_S)
    assert page.samples("laggard_request_score", "service") == {("wordpress",): 0.4}
    serve(page, 0.3, ts=TS)
    serve(page, 0.1, ts=TS + 100 * WORST_S)
    assert page.samples("laggard_request_score", "service") == {("wordpress",): 0.1}


def test_names_of_clusters_and_states_are_bounded_and_lose_no_request() -> None:
    page = Page()
    for number in range(3 * MAX_CLUSTERS):
        serve(page, 2.0, f"lock {number}\x01", times_s={f"S{number}": 0.5})
        serve(page, times_s={f"S{number}": 0.5})
    clusters = page.samples("laggard_requests_outlying_total", "row")
    assert len(clusters) == MAX_CLUSTERS + 1
    assert clusters["...",] == 2 * MAX_CLUSTERS
    assert clusters["lock 0\ufffd",] == 1
    states = page.samples("laggard_request_state_seconds_total", "outlying", "state")
    assert len({state for _, state in states}) == MAX_STATES + 1
    assert sum(states.values()) == pytest.approx(3 * MAX_CLUSTERS)


def test_a_service_is_shown_until_it_is_silent_or_lost_and_counts_on_where_it_comes_again() -> None:
    page = Page()
    serve(page)
    page.clock.now += STALE_S + 1.0
    assert page.samples("laggard_requests_total", "service") == {}
    serve(page)
    assert page.samples("laggard_requests_total", "service") == {("wordpress",): 2}
    page.exporter.lost("gaussian", ["wordpress"])
    assert page.samples("laggard_requests_total", "service") == {("wordpress",): 2}
    page.exporter.lost("requests", ["wordpress", "unknown"])
    assert page.samples("laggard_requests_total", "service") == {}


def test_an_outlying_request_is_the_example_of_its_cluster() -> None:
    page = Page()
    serve(page, 2.0, "lock", request="first")
    serve(page, 2.0, "lock", request="newest " * 100)
    families = {family.name: family for family in parse_openmetrics(generate_openmetrics(page.registry).decode())}
    (found,) = families["laggard_requests_outlying"].samples
    assert found.exemplar is not None
    assert found.exemplar.labels["request"].startswith("newest")
    assert (found.exemplar.value, float(found.exemplar.timestamp)) == (SERVED.duration_s, TS)
