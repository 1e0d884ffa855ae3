"""Few names for requests: places in paths with many different parts become `*`.

Numbers and ids are replaced before, see `steady.asked_for`. Slugs, `/blog/hello-world`, look like routes,
`/shop/sign-in`. Only their number distinguishes them: a route has few siblings.
"""

from __future__ import annotations

from typing import Final

MOST_SIBLINGS: Final = 32
"""The most different parts at one place of a path. Later ones are `*`."""

MOST_FILES: Final = 128
"""The same for parts with an extension: scripts have more siblings than routes, and are no slugs."""

MOST_PARTS: Final = 8
"""The most parts of a name; the others are left out."""

MOST_KNOWN: Final = 2_000
"""The most parts that are remembered, over all services. Beyond, new ones are `*`, except for methods."""

OTHERS: Final = "*"


class _Place:
    """A place in paths: the parts that follow, by text, and how many of them have an extension."""

    __slots__ = ("files", "next")

    def __init__(self) -> None:
        self.next: dict[str, _Place] = {}
        self.files = 0


class RequestNames:
    """Makes names of requests. The first parts at a place keep their names, so a request has the same name for long.

    Example:
        >>> names = RequestNames()
        >>> for number in range(40):
        ...     name = names.name("blog", f"GET /post/slug-{chr(97 + number % 26)}{number}")
        >>> name, names.name("blog", "GET /post/slug-a0"), names.name("blog", "GET /about")
        ('GET /post/*', 'GET /post/slug-a0', 'GET /about')

    """

    def __init__(self) -> None:
        self._services = _Place()
        self._known = 0

    def name(self, service: str, text: str) -> str:
        """Return the name of a request, from its text without ids."""
        place = self._services.next.get(service) or self._add(self._services, service)
        parts = text.split("/")
        named = []
        for number, part in enumerate(parts[: MOST_PARTS + 1]):
            following = place.next.get(part)
            told = part if following or self._has_room(place, part, first=not number) else OTHERS
            place = following or place.next.get(told) or self._add(place, told)
            named.append(told)
        return "/".join(named)

    def _has_room(self, place: _Place, part: str, *, first: bool) -> bool:
        """Return whether a new part at a place keeps its name."""
        is_file = "." in part
        siblings = place.files if is_file else len(place.next) - place.files
        return siblings < (MOST_FILES if is_file else MOST_SIBLINGS) and (first or self._known < MOST_KNOWN)

    def _add(self, place: _Place, part: str) -> _Place:
        added = _Place()
        if self._known < MOST_KNOWN:
            self._known += 1
            place.next[part] = added
            place.files += "." in part
        return added
