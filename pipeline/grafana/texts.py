"""The texts of alerts, as Go templates.

The texts of `alerts.py` have placeholders in braces. Here each becomes a template of Prometheus or Grafana. Both have
the same functions, but different access to numbers.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Protocol

from laggard.pipeline.explaining.phrases import LACKED
from laggard.pipeline.explaining.units import BYTES, RATIOS, SECONDS, SUFFIXES, TIMESTAMP
from laggard.pipeline.grafana.alerts import EVIDENCE
from laggard.pipeline.grafana.labels import (
    APPLICATIONS_DASHBOARD,
    KEY,
    MEASURED,
    PLACE,
    POOLS_DASHBOARD,
    REQUESTS_DASHBOARD,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from laggard.pipeline.grafana.alert import Alert

_PLACEHOLDER: Final = re.compile(r"\{(\w+)(?: as (\w+))?\}")


class Dialect(Protocol):
    """The access of a template to labels and numbers."""

    def label(self, name: str) -> str:
        """Return the operand of a label's value, empty for a missing label."""

    def number(self, alert: Alert, name: str, write: Callable[[str], str], otherwise: str) -> str:
        """Return the result of `write` for the operand of a number; `otherwise` if the number is unknown."""

    def preamble(self, alert: Alert, text: str) -> str:
        """Return the definitions that the text needs before it."""


class PrometheusTemplates:
    """Prometheus: a template queries each number."""

    def label(self, name: str) -> str:
        """Return the operand of a label's value."""
        return f"$labels.{name}"

    def number(self, alert: Alert, name: str, write: Callable[[str], str], otherwise: str) -> str:
        """Return the template of a query's answer."""
        if name == MEASURED:
            return write("$value")
        number = alert.numbers[name]
        series = "$series" if number.labels == alert.labels else f"({self._series(number.labels)})"
        queries = " or ".join(f"max({number.form.format(f'{metric}%s')})" for metric in number.metrics)
        matched = " ".join(series for _ in number.metrics)
        return f"{{{{ with query (printf `{queries}` {matched}) }}}}{write('(. | first | value)')}{_else(otherwise)}"

    def preamble(self, alert: Alert, text: str) -> str:
        """Return the definition of the matchers of the alert's series, which most queries have."""
        return f"{{{{ $series := {self._series(alert.labels)} -}}}}\n" if "$series" in text else ""

    def _series(self, labels: tuple[str, ...]) -> str:
        matchers = ",".join(f"{label}=%q" for label in labels)
        return f"printf `{{{matchers}}}` {' '.join(map(self.label, labels))}"


class GrafanaTemplates:
    """Grafana: the numbers are the results of the rule's queries.

    The templates have no dollar sign: some versions treat it as an environment variable in provisioning files.
    """

    def label(self, name: str) -> str:
        """Return the operand of a label's value."""
        return f'(index .Labels "{name}")'

    def number(self, alert: Alert, name: str, write: Callable[[str], str], otherwise: str) -> str:
        """Return the template of a query's result; a query without a result has no labels."""
        assert name == MEASURED or name in alert.numbers, f"{alert.name}: there is no number {name}"
        found = f'(index .Values "{name}")'
        if name == MEASURED:
            return write(f"{found}.Value")
        return f"{{{{ if {found}.Labels }}}}{write(f'{found}.Value')}{_else(otherwise)}"

    def preamble(self, alert: Alert, text: str) -> str:  # noqa: ARG002 - as in the protocol
        """Return nothing, since the rule has the queries."""
        return ""


def _else(otherwise: str) -> str:
    return f"{{{{ else }}}}{otherwise}{{{{ end }}}}" if otherwise else "{{ end }}"


class Texts:
    """A writer of the annotations of alerts.

    Parameters:
        dialect: the dialect of the templates.
        dashboards: the address of dashboards, up to the uid.
        runbooks: the address of runbooks, up to the name.
        page: the address of laggard's page, without a slash at its end; empty for no links to it.

    """

    def __init__(self, dialect: Dialect, dashboards: str, runbooks: str, page: str = "") -> None:
        self._dialect = dialect
        self._dashboards = dashboards
        self._runbooks = runbooks
        self._page = page

    def annotations(self, alert: Alert) -> dict[str, str]:
        """Return the annotations: summary, description, a command, and links to the dashboard, runbook and page."""
        about_host, others = "host" in alert.labels, set(_OTHERS) <= set(alert.labels)
        # Not beyond now: dashboards query the end of the time range, which would be empty there.
        shown = f"from={'{from as epoch}' if 'from' in alert.numbers else 'now-3h'}&to=now"
        dashboard, variable = alert.dashboard, "&var-host={key as url}" if about_host else ""
        if others:
            dashboard = self._by_key(dict(zip(_OTHERS, _DASHBOARDS, strict=True)), dashboard)
            variable = self._by_key({each: f"&var-{each}={{key as url}}" for each in _OTHERS}, variable)
        shown += variable + "".join(f"{{{label} as parameter}}" for label in PLACE)
        written = {
            "summary": self._template(alert, alert.summary),
            "description": self._template(alert, alert.description),
            "dashboard_url": self._template(alert, shown, f"{self._dashboards}{dashboard}?"),
            "runbook_url": f"{self._runbooks}/{alert.name}.md",
        }
        if self._page:
            written["page_url"] = self._template(alert, self._place(alert), self._page)
        if about_host:
            at = " --at {at as epoch}" if "at" in alert.numbers else ""
            why = f"laggard why --host {{key as argument}}{at}"
            if others:
                commands = {
                    "application": "laggard models {key as argument}",
                    "pool": f"laggard pools {{key as argument}}{at}",
                    "service": f"laggard requests {{key as argument}}{at}",
                }
                why = self._by_key(commands, why)
            written["why"] = self._template(alert, why)
        return written

    def _place(self, alert: Alert) -> str:
        """Return the place on the page: the incidents of the key, otherwise the host, or the pipeline."""
        if "host" not in alert.labels:
            return "/pipeline"
        at = "&at={at as epoch}" if "at" in alert.numbers else ""
        if not set(_OTHERS) <= set(alert.labels):
            return f"/?host={{key as url}}{at}"
        about = self._by_key({each: f"{each}={{key as url}}" for each in _OTHERS}, "host={key as url}")
        return f"/incidents?{about}{at or '&range=7d'}"

    def _by_key(self, texts: Mapping[str, str], otherwise: str) -> str:
        """Return the text of the first of these labels that the alert has; `otherwise` if it has none."""
        branches = [f"if {self._dialect.label(name)} }}}}{text}" for name, text in texts.items()]
        return f"{{{{ {'{{ else '.join(branches)}{{{{ else }}}}{otherwise}{{{{ end }}}}"

    def _template(self, alert: Alert, text: str, before: str = "") -> str:
        """Return the template of a text, with `before` unchanged."""

        def written(match: re.Match[str]) -> str:
            name, form = match.groups()
            if name in {"subject", "entity"}:
                return self._subject(with_culprit=name == "subject")
            if name == "behavior":
                row = self._label(alert, "row")
                of_pool = f"{{{{ if {row} }}}}deviating from the other members{{{{ else }}}}{_UNUSUAL}{{{{ end }}}}"
                return self._by_key({"pool": of_pool}, _UNUSUAL)
            if name in _OF_FEATURE:
                known, otherwise = (_PLACEHOLDER.sub(written, each) for each in _OF_FEATURE[name])
                chosen = f"{{{{ if {self._label(alert, 'feature')} }}}}{known}{_else(otherwise)}"
                of_service = f"{{{{ with {self._label(alert, 'row')} }}}} Main cause: {{{{ . }}}}.{{{{ end }}}}"
                return self._by_key({"service": of_service}, chosen) if name == "most" else chosen
            if name in {MEASURED, *alert.numbers}:
                return self._number(alert, name, form)
            operand = self._key() if name == "key" else self._label(alert, name)
            return _FORMS_OF_LABELS[form].format(operand, name)

        body = before + _PLACEHOLDER.sub(written, text)
        defined = _AMOUNT if 'template "amount"' in body else ""
        return defined + self._dialect.preamble(alert, body) + body

    def _number(self, alert: Alert, name: str, form: str) -> str:
        write, otherwise = _FORMS_OF_NUMBERS[form]
        feature = self._label(alert, "feature") if form in _IN_UNITS else ""
        return self._dialect.number(alert, name, lambda operand: write.format(operand, feature), otherwise)

    def _label(self, alert: Alert, name: str) -> str:
        assert name in alert.labels, f"{alert.name}: expected a label or a number, got {name!r}"
        return self._dialect.label(name)

    def _key(self) -> str:
        return f"(or {' '.join(self._dialect.label(name) for name in KEY if name not in PLACE)})"

    def _subject(self, *, with_culprit: bool) -> str:
        scope, row, host = (self._dialect.label(name) for name in ("scope", "row", "host"))
        of_host = f'{{{{ if ne {scope} "host" }}}}{{{{ {scope} }}}} {{{{ {row} }}}} on {{{{ end }}}}'
        subject = f"{of_host}{{{{ if {host} }}}}host {{{{ end }}}}{{{{ {self._key()} }}}}"
        application, resource = self._dialect.label("application"), self._dialect.label("resource")
        short_of = "".join(
            f'{{{{ {"else " if number else ""}if eq {resource} "{name}" }}}}short of {words} on '
            for number, (name, words) in enumerate(LACKED.items())
        )
        culprit = f"{short_of}{{{{ else }}}}most likely caused by {{{{ end }}}}{{{{ {row} }}}}"
        named = f"application {{{{ {application} }}}}"
        of_application = f"{named}{{{{ if {row} }}}}, {culprit}{{{{ end }}}}" if with_culprit else named
        of_pool = f"{{{{ if {row} }}}}{{{{ {scope} }}}} {{{{ {row} }}}} of {{{{ end }}}}pool {{{{ {self._key()} }}}}"
        of_service = f"service {{{{ {self._key()} }}}}"
        if with_culprit:
            of_service = f"requests of {of_service}{{{{ if {row} }}}} ({{{{ {row} }}}}){{{{ end }}}}"
        return self._by_key({"application": of_application, "pool": of_pool, "service": of_service}, subject)


_UNUSUAL: Final = "behaving unusually"
_OTHERS: Final = ("application", "pool", "service")
_DASHBOARDS: Final = (APPLICATIONS_DASHBOARD, POOLS_DASHBOARD, REQUESTS_DASHBOARD)
"""The keys other than a host, and their dashboards."""

_OF_FEATURE: Final = {
    "evidence": (EVIDENCE, "no single feature stands out"),
    "most": (" Most deviating: {feature}.", ""),
}
"""The texts with and without a known feature."""

_FORMS_OF_LABELS: Final = {
    None: "{{{{ {0} }}}}",
    "url": "{{{{ urlquery {0} }}}}",
    "parameter": "{{{{ with {0} }}}}&var-{1}={{{{ urlquery . }}}}{{{{ end }}}}",
    "where": "{{{{ with {0} }}}} in {{{{ . }}}}{{{{ end }}}}",
    # A name is foreign: quoted, so that a shell reads it only as a name.
    "argument": (
        r"{{{{ if match `\A[\w.:][\w.:-]*\z` {0} }}}}{{{{ {0} }}}}{{{{ else }}}}"
        r"'{{{{ reReplaceAll `'` `'\''` {0} }}}}'{{{{ end }}}}"
    ),
}
"""The forms of labels: the operand is 0, its name 1."""

_AMOUNT_OF: Final = '{{{{ template "amount" (args {0} {1}) }}}}'
_IN_UNITS: Final = ("amount", "usually", "spread")

_FORMS_OF_NUMBERS: Final = {
    "amount": (_AMOUNT_OF, "unknown"),
    "usually": (f", usually {_AMOUNT_OF}", ""),
    "spread": (f" ± {_AMOUNT_OF}", ""),
    "count": ("{{{{ humanize {0} }}}}", "unknown"),
    "share": ("{{{{ humanizePercentage {0} }}}}", "unknown"),
    "duration": ("{{{{ humanizeDuration {0} }}}}", "unknown"),
    "time": ("{{{{ humanizeTimestamp {0} }}}}", "an unknown time"),
    "epoch": ('{{{{ printf "%.0f" {0} }}}}', "now"),
    "young": ("{{{{ if eq {0} 1.0 }}}} The model is young, and may be wrong.{{{{ end }}}}", ""),
}
"""The forms of numbers, where the operand is 0 and the feature 1; and the text for an unknown number."""


def _amount() -> str:
    """Return the definition that writes a number with the unit of a feature's ending, as `units.readable` does."""
    written = {
        id(BYTES): "{{ humanize .arg0 }}B",
        id(RATIOS): "{{ humanizePercentage .arg0 }}",
        id(SECONDS): "{{ humanizeDuration .arg0 }}",
    }
    endings: dict[str, list[str]] = {}
    for suffix, steps in SUFFIXES:
        # `_per_s` ends like a time, but is not one.
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
