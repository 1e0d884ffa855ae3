"""What laggard publishes, its dashboards and alert rules, and what of them is compared.

A dashboard and an alert rule come back from Grafana with things that it adds. Compared is what is left without them.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from laggard.pipeline.grafana.alerts import (
    APPLICATIONS_DASHBOARD,
    HOST_DASHBOARD,
    OVERVIEW_DASHBOARD,
    PIPELINE_DASHBOARD,
    POOLS_DASHBOARD,
    REQUESTS_DASHBOARD,
    span,
)
from laggard.pipeline.grafana.rules import grafana_groups

if TYPE_CHECKING:
    from collections.abc import Mapping

DASHBOARDS: Final = Path(__file__).parents[2] / "deploy/grafana/dashboards"
"""In a checkout and where laggard is installed: both have `deploy` beside `pipeline`."""

_RANGE: Final = "from=${__from:date:seconds}&to=${__to:date:seconds}"

INVESTIGATED: Final[Mapping[str, str]] = {
    OVERVIEW_DASHBOARD: f"/incidents?{_RANGE}",
    HOST_DASHBOARD: f"/?host=${{host:percentencode}}&at=${{__to:date:seconds}}&{_RANGE}",
    APPLICATIONS_DASHBOARD: f"/applications?application=${{application:percentencode}}&{_RANGE}",
    POOLS_DASHBOARD: "/pools?pool=${pool:percentencode}&at=${__to:date:seconds}",
    REQUESTS_DASHBOARD: "/requests?service=${service:percentencode}&at=${__to:date:seconds}",
    PIPELINE_DASHBOARD: "/pipeline",
}
"""By dashboard, where laggard's page shows the same."""

PRINT: Final = "__laggard__"
"""The annotation of an alert rule that says what laggard wrote; Grafana shows none called so in messages."""

_RULE_FIELDS: Final = (
    "title",
    "condition",
    "data",
    "noDataState",
    "execErrState",
    "for",
    "keep_firing_for",
    "annotations",
    "labels",
    "isPaused",
    "ruleGroup",
    "folderUID",
)
_ADDED_TO_DASHBOARDS: Final = ("id", "version", "iteration")
_ADDED_TO_QUERIES: Final = {"intervalMs": 1000, "maxDataPoints": 43200}
_SPAN: Final = re.compile(r"(\d+)(ms|[smhdwy])")
_UNIT_MS: Final = {
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
    "y": 31_536_000_000,
}


class DefinitionError(Exception):
    """A file of a dashboard is missing, or not what it should be; the message names it."""


@dataclass(frozen=True, slots=True)
class Definitions:
    """Everything that is published: dashboards, and groups of alert rules as Grafana's API takes them."""

    dashboards: tuple[Mapping[str, Any], ...]
    groups: tuple[Mapping[str, Any], ...]

    @property
    def rules(self) -> tuple[Mapping[str, Any], ...]:
        """The alert rules of all groups."""
        return tuple(rule for group in self.groups for rule in group["rules"])


def read_definitions(
    data_source: str | None, *, keeps_firing: bool = True, folder: Path = DASHBOARDS, page: str = ""
) -> Definitions:
    """All that there is to publish.

    Args:
        data_source: the uid of Grafana's data source that the alert rules ask; None for no alert rules.
        keeps_firing: whether Grafana knows `keep_firing_for`.
        folder: where the dashboards are, a file each.
        page: where people reach laggard's own page, without a slash at its end: each dashboard and alert gets a link
            to it; empty for none.

    Raises:
        DefinitionError: a file cannot be used, or there is no dashboard at all.

    """
    dashboards = tuple(_read(path) for path in sorted(folder.glob("*.json")))
    if not dashboards:
        raise DefinitionError(f"{folder}: expected laggard's dashboards there")
    if page:
        dashboards = tuple(_investigated(each, page) for each in dashboards)
    groups = [] if data_source is None else grafana_groups(data_source, page=page)
    if not keeps_firing:
        groups = [
            {
                **group,
                "rules": [
                    {name: value for name, value in rule.items() if name != "keep_firing_for"}
                    for rule in group["rules"]
                ],
            }
            for group in groups
        ]
    return Definitions(dashboards, tuple(groups))


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DefinitionError(f"{path}: {error}; expected JSON") from None
    if not isinstance(found, dict) or not found.get("uid"):
        raise DefinitionError(f"{path}: expected a dashboard with a uid")
    return found


def _investigated(dashboard: Mapping[str, Any], page: str) -> dict[str, Any]:
    """A dashboard with a link, at its top, to where laggard's page shows what it is about."""
    path = INVESTIGATED.get(dashboard["uid"], "/")
    link = {
        "title": "Investigate",
        "type": "link",
        "icon": "external link",
        "tooltip": "The same on laggard's own page, where it can be looked into",
        "url": page + path,
        "tags": [],
        "asDropdown": False,
        "targetBlank": True,
        "includeVars": False,
        "keepTime": False,
    }
    return {**dashboard, "links": [link, *dashboard.get("links", ())]}


# What is compared.


def plain_dashboard(dashboard: Mapping[str, Any]) -> dict[str, Any]:
    """A dashboard without what Grafana adds when it is saved."""
    return {name: value for name, value in dashboard.items() if name not in _ADDED_TO_DASHBOARDS}


def plain_rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    """An alert rule without what Grafana adds, its lengths of time written in one way, and without laggard's print."""
    found = {name: rule[name] for name in _RULE_FIELDS if rule.get(name) not in (None, "", {}, [])}
    found["isPaused"] = bool(rule.get("isPaused", False))
    for name in ("for", "keep_firing_for"):
        if name in found:
            found[name] = _plain_span(str(found[name]))
            if not found[name]:
                del found[name]
    for name in ("labels", "annotations"):
        found[name] = {key: value for key, value in found.get(name, {}).items() if key != PRINT}
    found["data"] = [_plain_query(query) for query in found.get("data", ())]
    return found


def _plain_span(text: str) -> str:
    """A length of time in one way, `1m30s` of `90s` and of `1m30s0ms`; what is none stays what it is."""
    if not re.fullmatch(rf"({_SPAN.pattern})+|0", text):
        return text
    ms = sum(int(count) * _UNIT_MS[unit] for count, unit in _SPAN.findall(text))
    return span(ms / 1000.0) if ms else ""


def _plain_query(query: Mapping[str, Any]) -> dict[str, Any]:
    model = {"refId": query.get("refId"), **(query.get("model") or {})}
    return {
        "refId": query.get("refId"),
        "datasourceUid": query.get("datasourceUid"),
        "relativeTimeRange": query.get("relativeTimeRange") or {"from": 0, "to": 0},
        "model": {
            name: value
            for name, value in model.items()
            if _ADDED_TO_QUERIES.get(name) != value or isinstance(value, bool)
        },
    }


def digest(plain: Mapping[str, Any]) -> str:
    """A fingerprint of what is compared: 16 letters."""
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def lines(plain: Mapping[str, Any]) -> list[str]:
    """For people to compare: JSON in one order, a line each."""
    return json.dumps(plain, sort_keys=True, indent=2, ensure_ascii=False).splitlines()
