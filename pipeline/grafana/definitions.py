"""The dashboards and alert rules that laggard publishes, and their forms for comparison.

Grafana adds fields to dashboards and alert rules. The comparison leaves these out.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from laggard.pipeline.grafana.labels import (
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
"""The folder of the dashboards, in a checkout and an installation: both have `deploy` next to `pipeline`."""

_RANGE: Final = "from=${__from:date:seconds}&to=${__to:date:seconds}"

INVESTIGATED: Final[Mapping[str, str]] = {
    OVERVIEW_DASHBOARD: f"/incidents?{_RANGE}",
    HOST_DASHBOARD: f"/?host=${{host:percentencode}}&at=${{__to:date:seconds}}&{_RANGE}",
    APPLICATIONS_DASHBOARD: f"/applications?application=${{application:percentencode}}&{_RANGE}",
    POOLS_DASHBOARD: "/pools?pool=${pool:percentencode}&at=${__to:date:seconds}",
    REQUESTS_DASHBOARD: "/requests?service=${service:percentencode}&at=${__to:date:seconds}",
    PIPELINE_DASHBOARD: "/pipeline",
}
"""The path on laggard's page that shows the same, by dashboard."""

PRINT: Final = "__laggard__"
"""The annotation of an alert rule with laggard's fingerprints; Grafana hides such names in messages."""

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
    """The file of a dashboard is missing or invalid; the message names it."""


@dataclass(frozen=True, slots=True)
class Definitions:
    """Everything to publish: dashboards, and groups of alert rules in the form of Grafana's API."""

    dashboards: tuple[Mapping[str, Any], ...]
    groups: tuple[Mapping[str, Any], ...]

    @property
    def rules(self) -> tuple[Mapping[str, Any], ...]:
        """The alert rules of all groups."""
        return tuple(rule for group in self.groups for rule in group["rules"])


def read_definitions(
    data_source: str | None, *, keeps_firing: bool = True, folder: Path = DASHBOARDS, page: str = ""
) -> Definitions:
    """Return everything to publish.

    Args:
        data_source: the uid of Grafana's data source for the alert rules; None for no alert rules.
        keeps_firing: whether Grafana knows `keep_firing_for`.
        folder: the folder of the dashboards, a file each.
        page: the address of laggard's page, without a slash at its end, for a link in each dashboard and alert; empty
            for none.

    Raises:
        DefinitionError: a file is invalid, or there is no dashboard at all.

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
    """Return a dashboard with a link at its top to the same on laggard's page."""
    path = INVESTIGATED.get(dashboard["uid"], "/")
    link = {
        "title": "Investigate",
        "type": "link",
        "icon": "external link",
        "tooltip": "Open laggard's own page, with profiles and evidence",
        "url": page + path,
        "tags": [],
        "asDropdown": False,
        "targetBlank": True,
        "includeVars": False,
        "keepTime": False,
    }
    return {**dashboard, "links": [link, *dashboard.get("links", ())]}


# The comparison.


def plain_dashboard(dashboard: Mapping[str, Any]) -> dict[str, Any]:
    """Return a dashboard without the fields that Grafana adds to saved ones."""
    return {name: value for name, value in dashboard.items() if name not in _ADDED_TO_DASHBOARDS}


def plain_rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    """Return an alert rule with normalized lengths of time, without Grafana's additions and laggard's fingerprints."""
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
    """Normalize a length of time: `1m30s` for `90s` and for `1m30s0ms`; other texts stay as they are."""
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
    """Return a fingerprint of 16 hexadecimal digits."""
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def lines(plain: Mapping[str, Any]) -> list[str]:
    """Return JSON for people to compare: sorted, in lines."""
    return json.dumps(plain, sort_keys=True, indent=2, ensure_ascii=False).splitlines()
