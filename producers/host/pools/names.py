"""What the members of a pool are called, and what their names have in common. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_SEPARATORS: Final = " -_.:#/@"
_DIGITS: Final = "0123456789"
_HEAD: Final = 7
_ABBREVIATION: Final = ".."
"""Java from 19 on shortens what is longer than the kernel keeps, 15 bytes, to its first 7 and its last 6, with this in
between (HotSpot, os::Linux::set_native_thread_name)."""


def part(name: str) -> str:
    """A name as one part of a path."""
    return name.replace("/", ":")


def pattern(name: str) -> str:
    """What a thread's name has in common with those of its pool: all of it but the number at its end.

    >>> pattern("http-nio-8080-exec-3"), pattern("GC Thread#0"), pattern("Thread-12 (work"), pattern("ksoftirqd/0")
    ('http-nio-8080-exec', 'GC Thread', 'Thread', 'ksoftirqd')

    The last but one is how Python from 3.14 on calls threads, with the function behind the number. A name without a
    number at its end is its own pattern, and so is one that is nothing but digits and separators.
    """
    begin, _, _ = name.partition(" (")
    stem = (begin if begin[-1:] in _DIGITS else name).rstrip(_DIGITS)
    if stem in {name, begin}:
        return name
    return stem.rstrip(_SEPARATORS) or name


def patterns(names: Iterable[str]) -> Mapping[str, str]:
    """The pattern of each name of a process's threads.

    >>> patterns(["http-ni..exec-3", "http-ni..xec-12", "http-ni..Poller"])["http-ni..xec-12"]
    'http-ni..exec'

    Of names that are shortened in the middle as much less is left at the end as their numbers are longer: such ends are
    one if one ends with the other.
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
    """What a process says that it is, by its title (the command line that it gave itself); empty where it does not.

    >>> role("nginx: worker process"), role("postgres: 15/main: shop orders 10.0.0.7(5432) idle"), role("nginx -g x")
    ('worker process', 'shop orders', '')

    That is the first two words behind those that end with a colon, each without a number at its end: what comes behind
    is what it does just now.
    """
    words = title.split()
    if not words or not words[0].endswith(":"):
        return ""
    while words and words[0].endswith(":"):
        del words[0]
    return " ".join(pattern(word.strip("[]()") or word) for word in words[:2])
