"""The settings of applications and of the operator `regression`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from laggard.pipeline.settings.checks import check_key
from laggard.pipeline.settings.declaring import Choice, Count, Mapped, Number, Rate, Ratio, Section, Text, Words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laggard.operators.regression.following import Criterion, Method
    from laggard.operators.regression.models import Kind
    from laggard.pipeline.settings.declaring import Setting


def _check_applications(hosts: Mapping[str, object]) -> None:
    for application, patterns in hosts.items():
        if not isinstance(patterns, str) or not patterns.split():
            raise ValueError(f"for {application!r} hosts, or patterns such as web-*, separated by blanks")
        check_key(application, "applications")


def _check_pattern(pattern: str) -> None:
    try:
        found = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"a regular expression of Python: {error}") from None
    if pattern and "application" not in found.groupindex:
        raise ValueError("a group that names the application: (?P<application>...)")


class ApplicationsSettings(Section, table="applications"):
    """The settings of the hosts of applications."""

    hosts = Mapped(
        "",
        "The hosts of each application: their names or patterns such as `web-*`, separated by spaces. Their counters "
        "explain its performance.",
        check=_check_applications,
    )
    pattern = Text(
        "",
        "A regular expression for host names, whose group `application` is the application of a host: "
        "`(?P<application>[a-z]+)-[a-z]+-[0-9]+`. Empty for none.",
        check=_check_pattern,
    )


class RegressionSettings(Section, table="regression"):
    """The operator `regression`."""

    performance = Words(
        "response_time_mean_s,throughput_per_s",
        "The performance metrics of an application to explain, each by a model of its own.",
    )
    candidates = Count(
        "100",
        "The number of metrics of its hosts from which a model is chosen: those that correlate best with the "
        "performance.",
        minimum="1",
        maximum="10000",
    )
    window = Count(
        "10",
        "The number of intervals for a first model. The published method also compares this many with the ones before.",
        minimum="4",
        maximum="60",
    )
    minimum_gain = Number(
        "0.01",
        "The least gain in explained variance (R²) for another metric in a model.",
        minimum="0",
        maximum="1",
    )
    significance = Ratio(
        "5%",
        "Of the published method: a model is rebuilt if the p-value of the change of its errors is below this.",
        minimum="0.01%",
        maximum="50%",
    )
    kind: Setting[Kind] = Choice(
        "linear",
        "The kind of model: `linear`, an equation; nearest `neighbours`; a regression `tree`; or `boosting`. All but "
        "the first need scikit-learn: `pip install '.[models]'` in a checkout.",
        choices=("linear", "neighbours", "tree", "boosting"),
    )
    criterion: Setting[Criterion] = Choice(
        "residuals",
        "Of the published method: a model is invalid by its errors (`residuals`), or if R² is below 0.8 (`r2`).",
        choices=("residuals", "r2"),
    )
    method: Setting[Method] = Choice(
        "adaptive",
        "How models are built and replaced: `published`, as in the paper behind this operator, or `adaptive`, which "
        "names host and resource after fewer intervals, and more reliably.",
        choices=("adaptive", "published"),
    )
    false_rebuilds = Rate(
        "1/day",
        "The rate at which valid models of an application may be replaced.",
        minimum="1/month",
        maximum="10/minute",
    )
    false_alarms = Rate(
        "1/day", "The false-alarm budget of an application for this operator.", minimum="1/month", maximum="10/minute"
    )
