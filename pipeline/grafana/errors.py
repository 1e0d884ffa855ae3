"""Errors of Grafana, apart from the client."""

from __future__ import annotations


class GrafanaError(Exception):
    """Grafana failed a call; the message has the address, the call, the reason and the remedy.

    Attributes:
        status: the HTTP status, 0 for none.

    """

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class GrafanaUnavailable(GrafanaError):  # noqa: N818 - named for what it says
    """Grafana cannot be reached now, or is too slow or too busy. The same call may succeed later."""
