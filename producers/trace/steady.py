"""Stable words: the same problem has the same text in every request, without ids and temporary names."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from laggard.producers.system.redaction import redact

_NUMBERED: Final = re.compile(r"^(pipe|socket|anon_inode|memfd|net|mnt|pid|user|uts|ipc|cgroup):\[?[\w.\[\] -]*\]?$")
# Repeated characters match only from the first one: for a long run, each start would make it quadratic.
_NUMBER: Final = re.compile(r"(?<![-_#/ :])[-_#/ :]+\d+$")
_ADDRESS: Final = re.compile(r":\d+$")
_PROC: Final = re.compile(r"^/proc/\d+(?:/task/\d+)?")
_DESCRIPTOR: Final = re.compile(r"^(/proc/(?:self|\*)/(?:fd|fdinfo|map_files)/|/dev/(?:fd|pts)/).+$")
_UUID: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_IDS: Final = re.compile(rf"{_UUID}|(?<![0-9a-f])(?=[0-9a-f]*\d)[0-9a-f]{{8,}}|\d{{5,}}", re.IGNORECASE)
_TEMPORARY: Final = re.compile(r"^((?:/private)?(?:/var)?/tmp/|/dev/shm/)(.*)$", re.DOTALL)
_RANDOM: Final = re.compile(
    r"(?!(?:[A-Z]?[a-z]{2,})(?:[A-Z][a-z]{2,})*(?:$|\.))"  # except for words, also where they are joined LikeThis
    r"(?=[A-Za-z]*[\d_A-Z])(?=[\d_a-z]*[A-Z]|[A-Z_a-z]*\d)[A-Za-z0-9_]{6,}(?=$|\.)"
)
_LONGEST_FILE: Final = 255  # in characters: NAME_MAX
_ID: Final = re.compile(rf"\A(?:\d+|{_UUID}|(?=[0-9a-f-]*\d)[0-9a-f-]{{8,}})", re.IGNORECASE)
_SLUG: Final = re.compile(r"\A(?:[^\W_]+(?:[-_][^\W_]+){3,}|[^%]*%[0-9a-fA-F]{2}.*)", re.DOTALL)
"""Four words and more, or text that is escaped: no route has these."""
_TOKEN: Final = re.compile(r"\A(?=[^\d]*\d)(?=[^a-z]*[a-z])(?=[^A-Z]*[A-Z])[\w~-]{16,}=*")
_NUMBERED_PART: Final = re.compile(r"[-_]\d+$")


@lru_cache(maxsize=65_536)
def steady(text: str) -> str:
    """Return a file's path or a socket's address without the parts that differ between requests.

    >>> steady("/var/lib/php/sessions/sess_9f86d081884c7d65")
    '/var/lib/php/sessions/sess_*'
    >>> steady("/tmp/phpQ7xk2Z"), steady("/proc/812/status"), steady("pipe:[4711]")
    ('/tmp/*', '/proc/*/status', 'pipe')
    >>> steady("127.0.0.1:43306")  # a server's address: those of clients are left out
    '127.0.0.1:43306'
    """
    text = text.removesuffix(" (deleted)")
    if text.startswith("unix:/"):
        return f"unix:{steady(text[5:])}"
    if not text.startswith("/"):
        numbered = _NUMBERED.match(text)
        if numbered is not None:
            return numbered[1]
        return text if _ADDRESS.search(text) else _IDS.sub("*", text)
    text = _PROC.sub("/proc/*", text)
    descriptor = _DESCRIPTOR.match(text)
    if descriptor is not None:
        return f"{descriptor[1]}*"
    text = _IDS.sub("*", text)
    temporary = _TEMPORARY.match(text)
    if temporary is not None:
        parts = temporary[2].split("/")
        return temporary[1] + "/".join(_RANDOM.sub("*", part) if len(part) <= _LONGEST_FILE else part for part in parts)
    return text


@lru_cache(maxsize=4_096)
def steady_thread(name: str) -> str:
    """Return a thread's name without its number: `kworker/1:2-events` becomes `kworker`, `tokio-12` becomes `tokio`.

    >>> steady_thread("kworker/u4:1-flush"), steady_thread("ThreadPool-17"), steady_thread("php-fpm8.2")
    ('kworker', 'ThreadPool', 'php-fpm8.2')
    """
    if name.startswith("kworker/"):
        return "kworker"
    if name.startswith(("ksoftirqd/", "migration/", "irq/", "cpuhp/")):
        return name.partition("/")[0]
    return _NUMBER.sub("", name) or name


@lru_cache(maxsize=4_096)
def asked_for(text: str) -> str:
    """Return the name of a request without ids, query and secrets.

    >>> asked_for("GET /orders/4711/items?page=2")
    'GET /orders/*/items'
    >>> asked_for("GET /2024/05/how-to-bake-good-bread.html"), asked_for("GET /sign-in/step-2")
    ('GET /*/*/*.html', 'GET /sign-in/step-*')
    """
    text = text.split("?", 1)[0].split("#", 1)[0]
    first, *parts = text.split("/")
    return redact("/".join(["*" if _ID.fullmatch(first) else first, *map(_part, parts)]))


def _part(part: str) -> str:
    """Return a part of a path, or `*` for an id, a slug or a token; an extension stays."""
    stem, dot, extension = part.rpartition(".") if "." in part[1:] else (part, "", "")
    if any(pattern.fullmatch(stem) for pattern in (_ID, _SLUG, _TOKEN)):
        return f"*{dot}{extension}"
    return _NUMBERED_PART.sub(lambda found: f"{found[0][0]}*", stem) + dot + extension
