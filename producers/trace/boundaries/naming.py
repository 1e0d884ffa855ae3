"""What a request is called: what it asks for, without what differs from one to the next."""

from __future__ import annotations

import re
from typing import Final

LONGEST: Final = 120
"""In characters; what is longer is cut."""

_IDENTIFIER: Final = re.compile(
    r"(?<=/)(?:\d+|[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}|(?=[0-9a-fA-F]*\d)[0-9a-fA-F]{16,})(?=/|$)"
)


def request_name(text: str) -> str:
    """A request's name: no query or fragment, and `*` for parts of the path that are numbers or ids.

    >>> request_name("GET /cart/1234/items?sort=price")
    'GET /cart/*/items'
    """
    return _IDENTIFIER.sub("*", re.split(r"[?#]", text, maxsplit=1)[0].strip())[:LONGEST]
