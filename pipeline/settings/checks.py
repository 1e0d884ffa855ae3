"""Checks that settings of several rooms share."""

from __future__ import annotations


def check_key(name: str, whose: str) -> None:
    """Raise `ValueError` where no record can be about this application, pool or service."""
    from laggard.pipeline.records.limits import MAX_KEY  # noqa: PLC0415 - most runs have none of them

    if not 0 < len(name) <= MAX_KEY or not name.isprintable():
        raise ValueError(f"names of {whose} of 1 to {MAX_KEY} characters that can be printed")


def check_url(url: str, expected: str, token: str) -> None:
    """Raise `ValueError` where this is neither empty nor the address of a web server, or has a secret in it."""
    import urllib.parse  # noqa: PLC0415 - most runs have no such address

    try:
        parts = urllib.parse.urlsplit(url)
        parts.port  # noqa: B018 - raises ValueError for what is no port
    except ValueError:
        raise ValueError(expected) from None
    if url and (parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment):
        raise ValueError(expected)
    if parts.username is not None or parts.password is not None:
        raise ValueError(f"{expected}; no user and no password, but a token in {token}")
