"""The part of Grafana's HTTP API for annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laggard.pipeline.grafana.connection import Connection


class Annotations:
    """The calls to Grafana about annotations. Each method raises GrafanaError if its call fails."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def find(self, tags: list[str], limit: int = 1000) -> list[dict[str, Any]]:
        """Return the newest annotations that have all these tags, of any time."""
        # The library writes tags into the address unquoted.
        return self._connection.objects(
            lambda: self._connection.face.annotations.get_annotation(
                tags=[quote(tag, safe="") for tag in tags], limit=limit
            ),
            "find annotations",
            "annotations:read",
        )

    def create(self, annotation: Mapping[str, Any]) -> int:
        """Create an annotation of the organization, and return its id."""
        found = self._connection.ask(
            "POST", "/annotations", "write an annotation", "annotations:create", body=annotation, changes=True
        )
        return int(found["id"])

    def change(self, identity: int, changes: Mapping[str, Any]) -> None:
        """Change parts of an annotation."""
        self._connection.ask(
            "PATCH", f"/annotations/{identity}", "change an annotation", "annotations:write", body=changes
        )
