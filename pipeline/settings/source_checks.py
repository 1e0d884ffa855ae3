"""Checks of the keys of tables `[[sources]]`."""

from __future__ import annotations

import re
import urllib.parse
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MAX_KEY: Final = 253

A_NAME: Final = f"a name of 1 to {_MAX_KEY} characters"
"""The expected key."""


def check_key(value: str) -> None:
    """Raise `ValueError` if the name of an application or pool is too long."""
    if len(value) > _MAX_KEY:
        raise ValueError(A_NAME)


def check_url(value: str) -> None:
    """Raise `ValueError` if this is neither empty nor the address of a page."""
    if value:
        check_urls((value,))


def check_urls(values: Sequence[str]) -> None:
    """Raise `ValueError` if one of these is not the address of a page."""
    expected = "addresses such as http://web-1:8000/metrics"
    for value in values:
        try:
            parts = urllib.parse.urlsplit(value)
            parts.port  # noqa: B018 - raises ValueError for an invalid port
        except ValueError:
            raise ValueError(expected) from None
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.fragment or not value.isascii():
            raise ValueError(expected)
        if parts.username is not None or parts.password is not None:
            raise ValueError(f"{expected}; no user and no password, but username and password_file")


def check_selector(value: str) -> None:
    """Raise `ValueError` if this is neither empty nor a selector of series."""
    from laggard.producers.sources.prometheus.selectors import Selector  # noqa: PLC0415 - most settings have no sources

    if value:
        Selector.parse(value)


def check_variable(value: str) -> None:
    """Raise `ValueError` if this is no name for an environment variable with a secret."""
    if not re.fullmatch(r"([A-Za-z_]\w*)?", value, re.ASCII) or value.startswith("LAGGARD_"):
        raise ValueError("the name of an environment variable that does not begin with LAGGARD_")


def check_queries(value: Mapping[str, object]) -> None:
    """Raise `ValueError` if these are not PromQL expressions by feature."""
    if not all(isinstance(query, str) and query and 0 < len(name) <= 253 for name, query in value.items()):
        raise ValueError("features with a PromQL expression each")
