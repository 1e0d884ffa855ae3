"""Checks that several rooms share."""

from __future__ import annotations

import urllib.parse


def check_key(name: str, whose: str) -> None:
    """Raise `ValueError` if no record can have this name of an application, pool or service as its key."""
    from laggard.pipeline.core.records.limits import MAX_KEY  # noqa: PLC0415 - most runs have none of them

    if not 0 < len(name) <= MAX_KEY or not name.isprintable():
        raise ValueError(f"names of {whose} of 1 to {MAX_KEY} characters that can be printed")


def check_url(url: str, expected: str, token: str) -> None:
    """Raise `ValueError` unless this is empty or the address of a web server, without a secret."""
    try:
        parts = urllib.parse.urlsplit(url)
        parts.port  # noqa: B018 - raises ValueError for an invalid port
    except ValueError:
        raise ValueError(expected) from None
    if url and (parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment):
        raise ValueError(expected)
    if parts.username is not None or parts.password is not None:
        raise ValueError(f"{expected}; no user and no password, but a token in {token}")
