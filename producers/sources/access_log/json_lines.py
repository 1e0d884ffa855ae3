"""Lines of JSON, one request each, in the form of nginx, Caddy, Traefik or Envoy, or with fields of any name."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from laggard.producers.sources.access_log.requests import Gathered, Requests, lines_of, shown
from laggard.producers.sources.access_log.times import Zone, read_time, since_epoch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

UNITS_S: Final = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
"""The units of a duration."""

_GO_UNITS_S: Final = {**UNITS_S, "µs": 1e-6, "μs": 1e-6, "m": 60.0, "h": 3600.0}  # both letters are used
_LONGEST_DURATION: Final = 64  # in characters
_GO_PIECE: Final = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|μs|ms|s|m|h)")
_NONE: Final = object()


@dataclass(frozen=True, slots=True)
class JsonFields:
    """The names of the fields of an object; a name with dots is a path if there is no field of that name.

    Attributes:
        time: the time of the request: ISO 8601, the Common Log Format, or a number since the epoch.
        duration: its duration: a number, in quotation marks or not, or one with its unit, `1.5ms`, as Go writes it.
        status: the status of HTTP; a line may lack it.
        unit: the unit of durations without one: `s`, `ms`, `us` or `ns`.
        begins: whether the time is that of the request's beginning.

    """

    time: str
    duration: str
    status: str
    unit: str = "s"
    begins: bool = False


KNOWN: Final = (
    # Traefik has `time`, too, but only to the second.
    JsonFields("StartUTC", "Duration", "DownstreamStatus", "ns", begins=True),
    JsonFields("StartLocal", "Duration", "DownstreamStatus", "ns", begins=True),
    # The fields in the documentation of Envoy, and of Istio.
    JsonFields("start_time", "duration", "response_code", "ms", begins=True),
    # Caddy.
    JsonFields("ts", "duration", "status"),
    # nginx has no form of its own: these are the names of its variables, and those of Elastic's and Loki's examples.
    *(
        JsonFields(time, "request_time", "status")
        for time in ("msec", "time_iso8601", "time_local", "@timestamp", "timestamp", "time", "ts")
    ),
)
"""Fields of the usual servers. Of those whose time and duration a line has, it is of the ones of the line before, or of
the first."""


class JsonParser:
    """Parses blocks of lines of JSON.

    Args:
        fields: the names of the fields; by default those of `KNOWN`.
        zone: the zone of times without an offset.

    Raises ValueError for an unknown unit.

    """

    timed = True
    statuses = True

    def __init__(self, fields: JsonFields | None = None, zone: Zone | None = None) -> None:
        if fields is not None and fields.unit not in UNITS_S:
            raise ValueError(f"expected a unit of {', '.join(UNITS_S)}, got {fields.unit!r}")
        self._all: Sequence[JsonFields] = KNOWN if fields is None else (fields,)
        self._last = self._all[0]
        self._zone = zone
        self._decoder = json.JSONDecoder()

    def parse(self, block: bytes) -> Requests:
        """See `Parser`."""
        try:
            gathered = Gathered()
            for line in block.decode().split("\n"):
                if line and not line.isspace():
                    gathered.add(*self._request(self._decoded(line)))
            return gathered.requests()
        except (ValueError, RecursionError):  # errors of json and UTF-8 are ValueErrors, too
            return self._each(block)  # it finds the unreadable lines

    def _each(self, block: bytes) -> Requests:
        gathered = Gathered()
        for offset, line in lines_of(block):
            try:
                gathered.add(*self._request(self._decoded(line.decode())))
            except (ValueError, RecursionError) as error:
                gathered.refuse(offset, f"{_reason(error)}, in {shown(line)}")
        return gathered.requests()

    def _decoded(self, line: str) -> Any:
        """Decode a line; faster than `json.loads` if it begins and ends without blanks, as nearly all do."""
        if line[0] == "{" and line[-1] == "}":
            found, end = self._decoder.raw_decode(line)
            if end == len(line):
                return found
        return self._decoder.decode(line)

    def _request(self, line: Any) -> tuple[float, float, int]:
        if type(line) is not dict:
            raise ValueError("expected an object")
        fields = self._last
        when, took = line.get(fields.time, _NONE), line.get(fields.duration, _NONE)
        if when is _NONE or took is _NONE:
            fields = self._fields_of(line)
            when, took = _at(line, fields.time), _at(line, fields.duration)
        ts = self._ts(when, fields.time)
        duration_s = _duration_s(took, fields)
        if fields.begins and not math.isnan(duration_s):
            ts += duration_s
        return ts, duration_s, _status(_at(line, fields.status), fields.status)

    def _fields_of(self, line: Mapping[str, Any]) -> JsonFields:
        for each in (self._last, *self._all):
            if _at(line, each.time) is not _NONE and _at(line, each.duration) is not _NONE:
                self._last = each
                return each
        expected = " or ".join(dict.fromkeys(f"{each.time!r} with {each.duration!r}" for each in self._all))
        raise ValueError(f"expected the fields {expected}")

    def _ts(self, value: Any, name: str) -> float:
        try:
            if type(value) in {int, float}:
                return since_epoch(value)
            if isinstance(value, str):
                return read_time(value, self._zone)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        raise ValueError(f"{name}: expected a time, got {value!r}"[:120])


def _at(line: Mapping[str, Any], path: str) -> Any:
    """Return the value of a field or a path; `_NONE` if there is none."""
    found = line.get(path, _NONE)
    if found is not _NONE or "." not in path:
        return found
    found = line
    for name in path.split("."):
        found = found.get(name, _NONE) if isinstance(found, dict) else _NONE
    return found


def _duration_s(value: Any, fields: JsonFields) -> float:
    """Return a duration in seconds; NaN if the server has none."""
    if type(value) is float and 0 <= value < math.inf:
        return value * UNITS_S[fields.unit]
    if value is None or value in ("", "-"):
        return math.nan
    try:
        if type(value) in {int, float, str}:
            seconds = float(value) * UNITS_S[fields.unit]
            if 0 <= seconds < math.inf:
                return seconds
    except (ValueError, OverflowError):
        pieces = _GO_PIECE.findall(value) if isinstance(value, str) and len(value) <= _LONGEST_DURATION else []
        if pieces and "".join(number + unit for number, unit in pieces) == value:
            return sum(float(number) * _GO_UNITS_S[unit] for number, unit in pieces)
    raise ValueError(f"{fields.duration}: expected a non-negative duration, got {value!r}"[:120])


def _status(value: Any, name: str) -> int:
    if type(value) is int and 0 <= value <= 999:
        return value
    if value is _NONE or value is None or value in ("", "-"):
        return 0
    try:
        if type(value) is str and 0 <= int(value) <= 999:
            return int(value)
    except ValueError:
        pass
    raise ValueError(f"{name}: expected an HTTP status, got {value!r}"[:120])


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError | UnicodeDecodeError | RecursionError):
        return f"expected a line of JSON ({error})"
    return str(error)
