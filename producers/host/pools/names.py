"""Names of the members of a pool, and their common part. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_SEPARATORS: Final = " -_.:#/@"
_DIGITS: Final = "0123456789"
_HEAD: Final = 7
_ABBREVIATION: Final = ".."
"""The kernel stores 15 bytes of a name. Java from 19 on shortens longer ones to their first 7 and their last 6, with
this in between (HotSpot, os::Linux::set_native_thread_name)."""


def part(name: str) -> str:
    """Return a name as one part of a path."""
    return name.replace("/", ":")


def pattern(name: str) -> str:
    """Return the part of a thread's name that its pool shares: all of it except the number at its end.

    >>> pattern("http-nio-8080-exec-3"), pattern("GC Thread#0"), pattern("Thread-12 (work"), pattern("ksoftirqd/0")
    ('http-nio-8080-exec', 'GC Thread', 'Thread', 'ksoftirqd')

    Python from 3.14 on names threads like the last but one, with the function behind the number. A name without a
    number at its end is its own pattern, and so is one of digits and separators only.
    """
    begin, _, _ = name.partition(" (")
    stem = (begin if begin[-1:] in _DIGITS else name).rstrip(_DIGITS)
    if stem in {name, begin}:
        return name
    return stem.rstrip(_SEPARATORS) or name


def patterns(names: Iterable[str]) -> Mapping[str, str]:
    """Return the pattern of each name of a process's threads.

    >>> patterns(["http-ni..exec-3", "http-ni..xec-12", "http-ni..Poller"])["http-ni..xec-12"]
    'http-ni..exec'

    In names that are shortened in the middle, longer numbers leave less of the end. So two ends are the same if one
    ends with the other.
    """
    found = {name: pattern(name) for name in names}
    ends: dict[str, list[str]] = {}
    for name, each in found.items():
        if name[_HEAD : _HEAD + 2] == _ABBREVIATION and each != name:
            ends.setdefault(each[:_HEAD], []).append(each[_HEAD + 2 :])
    for name, each in found.items():
        if each != name and (of_head := ends.get(each[:_HEAD])) and each[_HEAD : _HEAD + 2] == _ABBREVIATION:
            alike = (other for other in of_head if other.endswith(each[_HEAD + 2 :]))
            found[name] = each[: _HEAD + 2] + max(alike, key=lambda end: (len(end), end))
    return found


def role(title: str) -> str:
    """Return the role that a process has in its title (the command line that it gave itself); empty without one.

    >>> role("nginx: worker process"), role("postgres: 15/main: shop orders 10.0.0.7(5432) idle"), role("nginx -g x")
    ('worker process', 'shop orders', '')

    The role is the first two words after those that end with a colon, each without a number at its end. The rest is its
    present work.
    """
    words = title.split()
    if not words or not words[0].endswith(":"):
        return ""
    while words and words[0].endswith(":"):
        del words[0]
    return " ".join(pattern(word.strip("[]()") or word) for word in words[:2])
