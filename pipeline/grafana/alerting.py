"""The part of Grafana's HTTP API for alert rules and contact points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laggard.pipeline.grafana.connection import Connection

EDITABLE: Final = {"X-Disable-Provenance": "true"}
"""With this header an alert rule stays editable in Grafana's pages."""


class Alerting:
    """The calls to Grafana about alert rules. Each method raises GrafanaError if its call fails."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def rules(self) -> list[dict[str, Any]]:
        """Return all alert rules that Grafana itself evaluates."""
        return self._connection.objects(
            lambda: self._connection.face.api.GET("/v1/provisioning/alert-rules"),
            "list the alert rules",
            "alert.provisioning:read",
        )

    def rule(self, uid: str) -> dict[str, Any]:
        """Return one alert rule, which must exist."""
        path = f"/v1/provisioning/alert-rules/{quote(uid, safe='')}"
        return dict(self._connection.ask("GET", path, f"read alert rule {uid}", "alert.provisioning:read"))

    def save_rule(self, rule: Mapping[str, Any], *, new: bool) -> dict[str, Any]:
        """Create or replace an alert rule, and return the stored one."""
        path = "/v1/provisioning/alert-rules" + ("" if new else f"/{quote(str(rule['uid']), safe='')}")
        what = f"save alert rule {rule['uid']}"
        method = "POST" if new else "PUT"
        self._connection.ask(method, path, what, "alert.provisioning:write", body=rule, headers=EDITABLE, changes=new)
        return self.rule(str(rule["uid"]))  # the answer to a change may differ from the stored rule

    def delete_rule(self, uid: str) -> None:
        """Delete an alert rule."""
        path = f"/v1/provisioning/alert-rules/{quote(uid, safe='')}"
        self._connection.ask("DELETE", path, f"delete alert rule {uid}", "alert.provisioning:write", headers=EDITABLE)

    def group(self, folder: str, name: str) -> dict[str, Any] | None:
        """Return a group of alert rules, None for a missing one."""
        found = self._connection.ask(
            "GET", _group(folder, name), f"read rule group {name}", "alert.provisioning:read", absent=(404,)
        )
        return found if isinstance(found, dict) else None

    def save_group(self, folder: str, name: str, group: Mapping[str, Any]) -> None:
        """Replace a group of alert rules, and its interval."""
        self._connection.ask(
            "PUT",
            _group(folder, name),
            f"save rule group {name}",
            "alert.provisioning:write",
            body=group,
            headers=EDITABLE,
        )

    def contact_points(self) -> list[dict[str, Any]]:
        """Return the contact points of alerts."""
        path = "/v1/provisioning/contact-points"
        return self._connection.objects(
            lambda: self._connection.face.api.GET(path), "list the contact points", "alert.provisioning:read"
        )


def _group(folder: str, name: str) -> str:
    return f"/v1/provisioning/folder/{quote(folder, safe='')}/rule-groups/{quote(name, safe='')}"
