"""The alerts of `alerts.py` in the forms of those who evaluate them.

Plain data, that is JSON or YAML: a rule file of Prometheus, a PrometheusRule of its Kubernetes operator, the groups of
Grafana's HTTP API and its provisioning file. Texts become templates of Go, which differ in how they come by numbers:
Prometheus asks for each, while Grafana has the queries of the rule.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from laggard.pipeline.grafana.alerts import KEY, PLACE, Alert, Recording, by, groups, span
from laggard.pipeline.units import BYTES, RATIOS, SECONDS, SUFFIXES, TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from laggard.pipeline.grafana.alerts import Group, Number

RUNBOOKS: Final = "https://github.com/laggard/laggard/blob/main/deploy/runbooks"
"""Where the runbooks can be read: `<this>/<name of the alert>.md`."""

GRAFANA: Final = "http://127.0.0.1:3000"
"""Where Grafana is, for links in Prometheus's alerts: that of the Compose file. Grafana itself knows."""

FOLDER_UID: Final = "laggard"
FOLDER: Final = "laggard"
"""Grafana's folder, and its title."""

DATA_SOURCE: Final = "prometheus"
"""The uid of the data source that Grafana's rules ask: that of the Compose file."""

MEASURED: Final = "measured"
"""What an alert's expression gives."""

EXPRESSION: Final = "__expr__"
"""The uid by which Grafana calls its own expressions."""

_PLACEHOLDER: Final = re.compile(r"\{(\w+)(?: as (\w+))?\}")


class Expression(NamedTuple):
    """A PromQL expression that laggard gives to others.

    Attributes:
        place: where it stands.
        text: the expression.
        empty: why it may give nothing while all is well; empty where it has to give something.

    """

    place: str
    text: str
    empty: str


def expressions(faster: float = 1.0) -> Iterator[Expression]:
    """Every expression of every rule, and those that the texts of alerts ask."""
    for group in groups(faster):
        for rule in group.rules:
            if isinstance(rule, Recording):
                yield Expression(rule.name, rule.expr, "")
                continue
            yield Expression(rule.name, rule.expr, "it gives what is wrong")
            for name, number in rule.numbers.items():
                incident = "_incident_" in number.metric
                reason = "there is such a series only while an incident is open" if incident else ""
                yield Expression(f"{rule.name}, {name}", _asked(number), reason)


# Prometheus.


def prometheus_rules(faster: float = 1.0, *, grafana: str = GRAFANA, runbooks: str = RUNBOOKS) -> dict[str, Any]:
    """The rule file of Prometheus.

    Args:
        faster: divides all times in it.
        grafana: where Grafana is.
        runbooks: where the runbooks are.

    """
    write = _Texts(_Prometheus(), f"{grafana}/d/", runbooks)
    return {"groups": [_prometheus_group(group, write) for group in groups(faster)]}


def prometheus_rule_resource() -> dict[str, Any]:
    """The same as a resource of the Prometheus Operator."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "laggard", "labels": {"app.kubernetes.io/component": "rules"}},
        "spec": prometheus_rules(),
    }


def _prometheus_group(group: Group, write: _Texts) -> dict[str, Any]:
    return {
        "name": group.name,
        "interval": span(group.interval_s),
        "rules": [
            {"record": rule.name, "expr": rule.expr}
            if isinstance(rule, Recording)
            else {
                "alert": rule.name,
                "expr": rule.expr,
                "for": span(rule.wait_s) if rule.wait_s else "0s",
                "keep_firing_for": span(rule.keep_s),
                "labels": {"severity": rule.severity},
                "annotations": write.annotations(rule),
            }
            for rule in group.rules
        ],
    }


# Grafana.


def grafana_groups(data_source: str = DATA_SOURCE, *, runbooks: str = RUNBOOKS) -> list[dict[str, Any]]:
    """The groups of rules as Grafana's HTTP API takes them (AlertRuleGroup of ProvisionedAlertRule).

    Args:
        data_source: the uid of the data source.
        runbooks: where the runbooks are.

    """
    write = _Texts(_Grafana(), '{{ reReplaceAll `/\\z` "" externalURL }}/d/', runbooks)
    return [
        {
            "title": group.name,
            "folderUid": FOLDER_UID,
            "interval": round(group.interval_s),
            "rules": [
                _grafana_rule(rule, group, data_source, write) for rule in group.rules if isinstance(rule, Alert)
            ],
        }
        for group in groups()
        if any(isinstance(rule, Alert) for rule in group.rules)
    ]


def grafana_provisioning() -> dict[str, Any]:
    """The file from which Grafana provisions the rules when it starts."""
    own = ("orgID", "folderUID", "ruleGroup", "keep_firing_for")
    return {
        "apiVersion": 1,
        "groups": [
            {
                "orgId": 1,
                "name": group["title"],
                "folder": FOLDER,
                "interval": span(group["interval"]),
                "rules": [
                    {name: value for name, value in rule.items() if name not in own}
                    | {"keepFiringFor": rule["keep_firing_for"]}
                    for rule in group["rules"]
                ],
            }
            for group in grafana_groups()
        ],
    }


def _grafana_rule(alert: Alert, group: Group, data_source: str, write: _Texts) -> dict[str, Any]:
    asked = {MEASURED: alert.expr} | {name: _asked(number) for name, number in alert.numbers.items()}
    return {
        "uid": re.sub(r"(?<=[a-z])(?=[A-Z])", "-", alert.name).lower(),
        "orgID": 1,
        "folderUID": FOLDER_UID,
        "ruleGroup": group.name,
        "title": alert.name,
        "condition": "fires",
        "data": [*_queries(asked, data_source, group.interval_s), _threshold(MEASURED)],
        # The expression gives what is wrong, so nothing is as it should be.
        "noDataState": "OK",
        "execErrState": "Error",
        "for": span(alert.wait_s) if alert.wait_s else "0s",
        "keep_firing_for": span(alert.keep_s),
        "annotations": write.annotations(alert),
        "labels": {"severity": alert.severity},
        "isPaused": False,
    }


def _queries(asked: dict[str, str], data_source: str, interval_s: float) -> Iterator[dict[str, Any]]:
    """For each number a query and its reduction, which Grafana before 10.1 wants of an instant query too."""
    for name, expr in asked.items():
        query = f"query_{name}"
        yield {
            "refId": query,
            "queryType": "",
            "relativeTimeRange": {"from": 600, "to": 0},
            "datasourceUid": data_source,
            "model": {
                "refId": query,
                "datasource": {"type": "prometheus", "uid": data_source},
                "editorMode": "code",
                "expr": expr,
                "instant": True,
                "range": False,
                "intervalMs": round(1000 * interval_s),
                "maxDataPoints": 43200,
            },
        }
        yield _expression(name, {"type": "reduce", "expression": query, "reducer": "last"})


def _threshold(name: str) -> dict[str, Any]:
    """Whatever the expression gives fires, and no expression gives a number below 0."""
    return _expression(
        "fires",
        {
            "type": "threshold",
            "expression": name,
            "conditions": [
                {
                    "type": "query",
                    "evaluator": {"type": "gt", "params": [-1]},
                    "operator": {"type": "and"},
                    "query": {"params": [name]},
                    "reducer": {"type": "last", "params": []},
                }
            ],
        },
    )


def _expression(name: str, model: dict[str, Any]) -> dict[str, Any]:
    return {
        "refId": name,
        "queryType": "",
        "relativeTimeRange": {"from": 0, "to": 0},
        "datasourceUid": EXPRESSION,
        "model": {"refId": name, "datasource": {"type": EXPRESSION, "uid": EXPRESSION}, **model},
    }


def _asked(number: Number) -> str:
    """The expression of a number for all series of an alert at once."""
    return f"max {by(number.labels)} ({number.form.format(number.metric)})"


# Texts.


class _Dialect(Protocol):
    """How a template comes by what it tells."""

    def label(self, name: str) -> str:
        """A label's value, empty where there is none: an operand."""

    def number(self, alert: Alert, name: str, write: Callable[[str], str], otherwise: str) -> str:
        """What `write` makes of the operand that is a number; `otherwise` where it is not known."""

    def preamble(self, alert: Alert, text: str) -> str:
        """What the text uses and has to be defined before it."""


class _Prometheus:
    def label(self, name: str) -> str:
        return f"$labels.{name}"

    def number(self, alert: Alert, name: str, write: Callable[[str], str], otherwise: str) -> str:
        if name == MEASURED:
            return write("$value")
        number = alert.numbers[name]
        series = "$series" if number.labels == alert.labels else f"({self._series(number.labels)})"
        asked = f"max({number.form.format(f'{number.metric}%s')})"
        return f"{{{{ with query (printf `{asked}` {series}) }}}}{write('(. | first | value)')}{_else(otherwise)}"

    def preamble(self, alert: Alert, text: str) -> str:
        return f"{{{{ $series := {self._series(alert.labels)} -}}}}\n" if "$series" in text else ""

    def _series(self, labels: tuple[str, ...]) -> str:
        matchers = ",".join(f"{label}=%q" for label in labels)
        return f"printf `{{{matchers}}}` {' '.join(map(self.label, labels))}"


class _Grafana:
    # Without a dollar sign: in provisioning files some versions take it for a variable of the environment.
    def label(self, name: str) -> str:
        return f'(index .Labels "{name}")'

    def number(self, alert: Alert, name: str, write: Callable[[str], str], otherwise: str) -> str:
        assert name == MEASURED or name in alert.numbers, f"{alert.name}: there is no number {name}"
        found = f'(index .Values "{name}")'
        if name == MEASURED:
            return write(f"{found}.Value")
        return f"{{{{ if {found}.Labels }}}}{write(f'{found}.Value')}{_else(otherwise)}"

    def preamble(self, alert: Alert, text: str) -> str:  # noqa: ARG002 - the queries are the rule's
        return ""


def _else(otherwise: str) -> str:
    return f"{{{{ else }}}}{otherwise}{{{{ end }}}}" if otherwise else "{{ end }}"


class _Texts:
    """Writes an alert's annotations.

    Parameters:
        dialect: whose templates.
        dashboards: where they are, up to the uid.
        runbooks: where they are, up to the name.

    """

    def __init__(self, dialect: _Dialect, dashboards: str, runbooks: str) -> None:
        self._dialect = dialect
        self._dashboards = dashboards
        self._runbooks = runbooks

    def annotations(self, alert: Alert) -> dict[str, str]:
        """What an alert says: a line, a few sentences, a link to what to look at and one to what to do."""
        about_host = "host" in alert.labels
        shown = "from={from as epoch}&to={to as epoch}" if "from" in alert.numbers else "from=now-3h&to=now"
        shown += "&var-host={key as url}" if about_host else ""
        shown += "".join(f"{{{label} as parameter}}" for label in PLACE)
        written = {
            "summary": self._template(alert, alert.summary),
            "description": self._template(alert, alert.description),
            "dashboard_url": self._template(alert, shown, f"{self._dashboards}{alert.dashboard}?"),
            "runbook_url": f"{self._runbooks}/{alert.name}.md",
        }
        if about_host:
            at = " --at {at as epoch}" if "at" in alert.numbers else ""
            written["why"] = self._template(alert, f"laggard why --host {{key as argument}}{at}")
        return written

    def _template(self, alert: Alert, text: str, before: str = "") -> str:
        """The template of a text, with `before` as it is."""

        def written(found: re.Match[str]) -> str:
            name, form = found.groups()
            if name == "subject":
                return self._subject()
            if name in {MEASURED, *alert.numbers}:
                return self._number(alert, name, form)
            operand = self._key() if name == "key" else self._label(alert, name)
            return _FORMS_OF_LABELS[form].format(operand, name)

        body = before + _PLACEHOLDER.sub(written, text)
        defined = _AMOUNT if 'template "amount"' in body else ""
        return defined + self._dialect.preamble(alert, body) + body

    def _number(self, alert: Alert, name: str, form: str) -> str:
        write, otherwise = _FORMS_OF_NUMBERS[form]
        feature = self._label(alert, "feature") if form == "amount" else ""
        return self._dialect.number(alert, name, lambda operand: write.format(operand, feature), otherwise)

    def _label(self, alert: Alert, name: str) -> str:
        assert name in alert.labels, f"{alert.name}: expected a label or a number, got {name!r}"
        return self._dialect.label(name)

    def _key(self) -> str:
        return f"(or {' '.join(self._dialect.label(name) for name in KEY if name not in PLACE)})"

    def _subject(self) -> str:
        scope, row, host = (self._dialect.label(name) for name in ("scope", "row", "host"))
        of_host = f'{{{{ if ne {scope} "host" }}}}{{{{ {scope} }}}} {{{{ {row} }}}} on {{{{ end }}}}'
        return f"{of_host}{{{{ if {host} }}}}host {{{{ end }}}}{{{{ {self._key()} }}}}"


_FORMS_OF_LABELS: Final = {
    None: "{{{{ {0} }}}}",
    "url": "{{{{ urlquery {0} }}}}",
    "parameter": "{{{{ with {0} }}}}&var-{1}={{{{ urlquery . }}}}{{{{ end }}}}",
    "where": "{{{{ with {0} }}}} in {{{{ . }}}}{{{{ end }}}}",
    # A name is somebody else's: quoted, so that a shell takes it for nothing but a name.
    "argument": (
        r"{{{{ if match `\A[\w.:][\w.:-]*\z` {0} }}}}{{{{ {0} }}}}{{{{ else }}}}"
        r"'{{{{ reReplaceAll `'` `'\''` {0} }}}}'{{{{ end }}}}"
    ),
}
"""How a label is written: the operand is 0, its name 1."""

_FORMS_OF_NUMBERS: Final = {
    "amount": ('{{{{ template "amount" (args {0} {1}) }}}}', "unknown"),
    "count": ("{{{{ humanize {0} }}}}", "unknown"),
    "duration": ("{{{{ humanizeDuration {0} }}}}", "unknown"),
    "time": ("{{{{ humanizeTimestamp {0} }}}}", "an unknown time"),
    "epoch": ('{{{{ printf "%.0f" {0} }}}}', "now"),
    "young": ("{{{{ if eq {0} 1.0 }}}} The model is young: it may well be wrong.{{{{ end }}}}", ""),
}
"""How a number is written, the operand is 0 and the feature 1; and what stands for one that is not known."""


def _amount() -> str:
    """Defines how a number is written with the unit that a feature ends with, as `units.readable` does."""
    written = {
        id(BYTES): "{{ humanize .arg0 }}B",
        id(RATIOS): "{{ humanizePercentage .arg0 }}",
        id(SECONDS): "{{ humanizeDuration .arg0 }}",
    }
    endings: dict[str, list[str]] = {}
    for suffix, steps in SUFFIXES:
        # `_per_s` ends like a time, and is none.
        endings.setdefault(written[id(steps)], []).append(r"(\A|[^r]|[^e]r|[^p]er)_s" if suffix == "_s" else suffix)
    cases = [(TIMESTAMP, "{{ humanizeTimestamp .arg0 }}")]
    cases += [(f"({'|'.join(suffixes)})(_per_s)?", form) for form, suffixes in endings.items()]
    lines = [f"{{{{- else if match `{ending}\\z` .arg1 }}}}{form}" for ending, form in cases]
    lines[0] = lines[0].replace("else if", "if")
    return "\n".join(
        [
            '{{ define "amount" }}',
            *lines,
            "{{- else }}{{ humanize .arg0 }}{{ end }}",
            r"{{- if match `_per_s\z` .arg1 }}/s{{ end }}",
            "{{- end -}}\n",
        ]
    )


_AMOUNT: Final = _amount()
