"""The kinds of settings, and readers of their values: durations, sizes, rates and the rest.

Each reader accepts a value of a TOML file or a text (an environment variable, a flag). It returns the value in its base
unit or raises `ValueError` with the expected form. The declaration of a setting has its bounds, and checks them.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

Kind = Literal[
    "address",
    "choice",
    "count",
    "duration",
    "file",
    "flag",
    "number",
    "path",
    "rate",
    "ratio",
    "size",
    "table",
    "tables",
    "text",
    "words",
]


class Address(NamedTuple):
    """The address of a server that listens; port 0 selects any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


Table = dict[str, object]
"""A table of TOML, or an object of JSON."""

Value = (
    None
    | str
    | bool
    | int
    | float
    | Path
    | Address
    | tuple[str, ...]
    | tuple[Table, ...]
    | dict[str, str | bool | int | float]
)

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_BYTES = {
    "b": 1.0,
    **{f"{prefix}b": 1000.0**power for power, prefix in enumerate("kmgt", start=1)},
    **{f"{prefix}ib": 1024.0**power for power, prefix in enumerate("kmgt", start=1)},
}
_PER_DAY = {"second": 86400.0, "minute": 1440.0, "hour": 24.0, "day": 1.0, "week": 1 / 7, "month": 1 / 30}

_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d|w)\s*", re.ASCII)
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?i?b)?", re.ASCII | re.IGNORECASE)
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*/\s*(second|minute|hour|day|week|month)", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?"
_LISTEN = re.compile(rf"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>{_LABEL}(\.{_LABEL})*)):(?P<port>\d{{1,5}})", re.ASCII)


def duration(value: object) -> float:
    """Return seconds from `500ms`, `5s`, `1h30m`, `2d`, or a plain number of seconds."""
    expected = "a duration such as 500ms, 5s, 1h30m or 2d"
    if isinstance(value, str) and not _NUMBER.fullmatch(value.strip()):
        text, seconds, position = value.strip(), 0.0, 0
        while part := _DURATION_PART.match(text, position):
            seconds += float(part[1]) * _SECONDS[part[2]]
            position = part.end()
        if not text or position != len(text):
            raise ValueError(expected)
    else:
        seconds = _finite(value, expected)
    if seconds < 0:
        raise ValueError(expected)
    return seconds


def size(value: object) -> int:
    """Return bytes from `512MiB`, `1GB`, or a plain number of bytes. A KiB has 1024, a kB 1000."""
    expected = "a size such as 512MiB, 1GiB or 2GB"
    if isinstance(value, str):
        match = _SIZE.fullmatch(value.strip())
        if not match:
            raise ValueError(expected)
        return round(float(match[1]) * _BYTES[(match[2] or "b").lower()])
    return count(value, expected)


def rate(value: object) -> float:
    """Return events per day from `1/day`, `3/week`, `1/month` (of 30 days)."""
    match = _RATE.fullmatch(value.strip()) if isinstance(value, str) else None
    if not match:
        raise ValueError("a rate such as 1/day, 3/week, 1/month or 0.5/hour")
    return float(match[1]) * _PER_DAY[match[2]]


def count(value: object, expected: str = "a whole number") -> int:
    """Return a whole number, also from a text."""
    if isinstance(value, str) and re.fullmatch(r"[+-]?\d{1,18}", value.strip(), re.ASCII):
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ValueError(expected)


def number(value: object) -> float:
    """Return a finite number, also from a text."""
    return _finite(value, "a number")


def ratio(value: object) -> float:
    """Return a ratio from `0.85` or `85%`."""
    if isinstance(value, str) and value.rstrip().endswith("%"):
        return _finite(value.rstrip()[:-1], "a ratio such as 0.85 or 85%") / 100
    return _finite(value, "a ratio such as 0.85 or 85%")


def flag(value: object) -> bool:
    """Return true or false; a text may also be yes, no, on, off, 1 or 0."""
    if isinstance(value, bool):
        return value
    words = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
    if isinstance(value, str) and value.strip().lower() in words:
        return words[value.strip().lower()]
    raise ValueError("true or false")


def text(value: object) -> str:
    """Return a text on one line."""
    if isinstance(value, str) and value.isprintable():
        return value
    raise ValueError("a text on one line")


def words(value: object) -> tuple[str, ...]:
    """Return a list of names; a text separates them by commas."""
    if isinstance(value, str):
        value = [word.strip() for word in value.split(",") if word.strip()]
    if isinstance(value, list) and all(isinstance(word, str) and word for word in value):
        if len(set(value)) < len(value):
            raise ValueError("a list of names, each of them once")
        return tuple(value)
    raise ValueError("a list of names, separated by commas in a text")


def table(value: object) -> dict[str, str | bool | int | float]:
    """Return names with values; a text has them as `NAME=VALUE`, separated by commas."""
    expected = "names with values, in a text NAME=VALUE, separated by commas"
    if isinstance(value, str):
        pairs = [part.partition("=") for part in value.split(",") if part.strip()]
        if not all(name.strip() and equals for name, equals, _ in pairs):
            raise ValueError(expected)
        names = [name.strip() for name, _, _ in pairs]
        if len(set(names)) < len(names):
            raise ValueError(f"{expected}, each name once")
        return {name: _plain(content.strip()) for name, (_, _, content) in zip(names, pairs, strict=True)}
    if isinstance(value, dict) and all(isinstance(each, str | bool | int | float) for each in value.values()):
        return dict(value)
    raise ValueError(f"{expected}; each value a number, a text, true or false")


def tables(value: object) -> tuple[Table, ...]:
    """Return tables; a text has them as a list of objects in JSON."""
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.strip() else []
        except (ValueError, RecursionError):
            value = None
    if isinstance(value, list) and all(isinstance(each, dict) for each in value):
        return tuple(value)
    raise ValueError("a list of tables, in a text as JSON")


def path(value: object) -> Path:
    """Return a path; `~` is the home directory."""
    if isinstance(value, str) and value and "\0" not in value:
        try:
            return Path(value).expanduser()
        except RuntimeError:
            raise ValueError("a path; the home directory of ~ is not known here") from None
    raise ValueError("a path")


def file(value: object) -> Path | None:
    """Return the path of a file; None for an empty text. `~` is the home directory."""
    try:
        return None if value == "" else path(value)
    except ValueError as error:
        raise ValueError(f"{error}, or nothing") from None


def address(value: object) -> Address:
    """Return a listening address from `127.0.0.1:9464` or `[::1]:9464`."""
    match = _LISTEN.fullmatch(value.strip()) if isinstance(value, str) else None
    if not match or int(match["port"]) > 65535:
        raise ValueError("an address and a port such as 127.0.0.1:9464 or [::1]:9464")
    return Address(match["six"] or match["name"], int(match["port"]))


def _plain(value: str) -> str | bool | int | float:
    """Return the value that a text stands for."""
    if value.lower() in {"true", "false"}:
        return value.lower() == "true"
    if not _NUMBER.fullmatch(value):
        return value
    return int(value) if re.fullmatch(r"[+-]?\d{1,18}", value, re.ASCII) else _finite(value, "a number")


def _finite(value: object, expected: str) -> float:
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        value = float(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    raise ValueError(expected)


READERS: dict[Kind, Callable[[object], Value]] = {
    "address": address,
    "choice": text,
    "count": count,
    "duration": duration,
    "file": file,
    "flag": flag,
    "number": number,
    "path": path,
    "rate": rate,
    "ratio": ratio,
    "size": size,
    "table": table,
    "tables": tables,
    "text": text,
    "words": words,
}
