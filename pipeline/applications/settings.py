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
    for application, said in hosts.items():
        if not isinstance(said, str) or not said.split():
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
    """Which hosts serve which applications."""

    hosts = Mapped(
        "",
        "Which hosts serve which application: by application their names, or patterns such as `web-*`, separated by "
        "blanks. Their counters are what its performance is explained by.",
        check=_check_applications,
    )
    pattern = Text(
        "",
        "A regular expression for names of hosts whose group `application` names the application that a host serves: "
        "`(?P<application>[a-z]+)-[a-z]+-[0-9]+`. Empty for none.",
        check=_check_pattern,
    )


class RegressionSettings(Section, table="regression"):
    """The operator `regression`."""

    performance = Words(
        "response_time_mean_s,throughput_per_s",
        "Which performance metrics of an application are explained, each by a model of its own.",
    )
    candidates = Count(
        "100",
        "So many metrics of its hosts, those that go with the performance best, a model is chosen from.",
        minimum="1",
        maximum="10000",
    )
    window = Count(
        "10",
        "From so many intervals a first model is built; the published method compares as many with those before.",
        minimum="4",
        maximum="60",
    )
    minimum_gain = Number(
        "0.01",
        "By so much one more metric has to raise the share of the variance that a model tells (R²).",
        minimum="0",
        maximum="1",
    )
    significance = Ratio(
        "5%",
        "Of the published method: a model is built anew where its errors differ from those before so much that chance "
        "does so more rarely.",
        minimum="0.01%",
        maximum="50%",
    )
    kind: Setting[Kind] = Choice(
        "linear",
        "What a model is: `linear`, an equation; or nearest `neighbours`, a regression `tree`, or `boosting`, which "
        "need scikit-learn: `pip install '.[models]'` in a checkout.",
        choices=("linear", "neighbours", "tree", "boosting"),
    )
    criterion: Setting[Criterion] = Choice(
        "residuals",
        "What tells by the published method that a model does not hold any more: its errors, or that R² is below 0.8.",
        choices=("residuals", "r2"),
    )
    method: Setting[Method] = Choice(
        "adaptive",
        "How models are built and given up: `published`, as in the paper that the operator comes from, or `adaptive`, "
        "which names host and resource after fewer intervals, and more surely.",
        choices=("adaptive", "published"),
    )
    false_rebuilds = Rate(
        "1/day",
        "So often a model of an application that still holds may be given up.",
        minimum="1/month",
        maximum="10/minute",
    )
    false_alarms = Rate(
        "1/day", "The false-alarm budget of an application for this operator.", minimum="1/month", maximum="10/minute"
    )
