"""Times as servers write them: Common Log Format, ISO 8601, forms of strftime, and numbers since the epoch."""

from __future__ import annotations

import calendar
import datetime as dt
import math
import re
import zoneinfo
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MONTHS: Final = {
    name: number
    for number, name in enumerate(
        ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), start=1
    )
}
CLF: Final = "%d/%b/%Y:%H:%M:%S %z"
"""The Common Log Format, in strftime's language."""

END: Final = 253402300800.0
"""The end of the year 9999, the last that `datetime` knows, in seconds since the epoch."""

_MAX_REMEMBERED: Final = 4096

# Regular expressions by field of strftime. `%b` is in English: servers write logs in the locale "C".
_FIELDS: Final = {
    "Y": r"\d{4}",
    "y": r"\d{2}",
    "m": r"\d{1,2}",
    "d": r"\d{1,2}",
    "e": r" ?\d{1,2}",
    "b": r"[A-Za-z]{3}",
    "j": r"\d{1,3}",
    "H": r"\d{1,2}",
    "I": r"\d{1,2}",
    "p": r"[AaPp][Mm]",
    "M": r"\d{1,2}",
    "S": r"\d{1,2}",
    "s": r"\d{1,11}",
    "z": r"Z|[+-]\d{2}:?\d{2}",
    "Z": r"[A-Za-z]{1,5}",
    "a": r"[A-Za-z]{3}",
}
_SHORT: Final = {
    "T": "%H:%M:%S",
    "R": "%H:%M",
    "F": "%Y-%m-%d",
    "D": "%m/%d/%y",
    "h": "%b",
    "c": "%a %b %e %H:%M:%S %Y",
    "r": "%I:%M:%S %p",
    "n": "\n",
    "t": "\t",
}
_NO_MOMENT: Final = {"a", "Z"}  # a day of the week adds nothing; a zone's abbreviation is not an offset
_ISO: Final = re.compile(
    r"(\d{4})[-/](\d{2})[-/](\d{2})[Tt ](\d{2}):(\d{2}):(\d{2})(?:[.,](\d{1,12}))? ?(Z|z|[+-]\d{2}(?::?\d{2})?)?"
)
_CLF: Final = re.compile(r"(\d{2})/([A-Za-z]{3})/(\d{4}):(\d{2}):(\d{2}):(\d{2}) ([+-]\d{4})")
# The size of a number since the epoch shows its unit: 1e11 s is the year 5138, 1e11 ms is 1973.
_UNITS: Final = ((1e11, 1.0), (1e14, 1e-3), (1e17, 1e-6), (1e20, 1e-9))


class Zone:
    """The time zone of times without an offset.

    If the clock of the zone goes back, the repeated hour is read as its first: such a log does not distinguish them.

    Args:
        name: a name of the IANA database, such as `Europe/Paris`; `UTC`; or `local` for that of this machine.

    Raises ValueError for an unknown zone.

    """

    def __init__(self, name: str) -> None:
        self.name = name
        if name == "UTC":
            self._zone: dt.tzinfo | None = dt.UTC
        elif name == "local":
            self._zone = None
        else:
            try:
                self._zone = zoneinfo.ZoneInfo(name)
            except (OSError, ValueError, zoneinfo.ZoneInfoNotFoundError) as error:
                expected = 'expected a time zone of the IANA database, "UTC" or "local"'
                raise ValueError(f"{expected}, got {name!r}") from error

    def offset_s(self, year: int, month: int, day: int, hour: int, minute: int) -> float:
        """Return the lead of the zone's clock over UTC, in seconds."""
        there = dt.datetime(year, month, day, hour, minute, tzinfo=self._zone)
        if self._zone is None:
            there = there.astimezone()
        offset = there.utcoffset()
        return 0.0 if offset is None else offset.total_seconds()


class StrftimeReader:
    """Reads a time in forms of strftime, possibly from several pieces of a line.

    Args:
        forms: the form of each piece.
        zone: the zone if no form has the offset.

    Raises ValueError if the forms define no moment, or one has a field that cannot be read back.

    Attributes:
        patterns: the expression of each piece, without groups, for bytes as text in ASCII.

    """

    def __init__(self, forms: Sequence[str], zone: Zone | None) -> None:
        self.patterns = tuple(expression(form, grouped=False) for form in forms)
        self._forms = tuple(re.compile(expression(form, grouped=True)) for form in forms)
        self._zone = zone
        self._remembered: dict[tuple[bytes, ...], float] = {}
        fields = {name for form in self._forms for name in form.groupindex}
        if not _has_moment(fields):
            got = " ".join(forms)
            raise ValueError(f"expected a time with its year, month, day, hour, minute and second, got {got!r}")
        if zone is None and not fields & {"z", "s"}:
            raise ValueError(
                'expected time_zone for times without an offset from UTC: "UTC", "Europe/Paris" or "local"'
            )

    def seconds(self, pieces: tuple[bytes, ...]) -> float:
        """Return seconds since the epoch. Raises ValueError for a moment that does not exist, such as 30 February."""
        found = self._remembered.get(pieces)
        if found is None:
            if len(self._remembered) >= _MAX_REMEMBERED:
                self._remembered.clear()
            found = self._remembered[pieces] = self._read(pieces)
        return found

    def _read(self, pieces: tuple[bytes, ...]) -> float:
        fields: dict[str, str] = {}
        for form, piece in zip(self._forms, pieces, strict=True):
            if (match := form.fullmatch(piece.decode("ascii", "replace"))) is None:
                raise ValueError(f"expected a time like {form.pattern}, got {piece!r}")
            fields |= match.groupdict()
        return _moment(fields, self._zone)


def read_time(text: str, zone: Zone | None) -> float:
    """Read seconds since the epoch from ISO 8601, the Common Log Format, or a number. Raises ValueError."""
    if match := _ISO.fullmatch(text):
        year, month, day, hour, minute, second, fraction, offset = match.groups()
        date = {"Y": year, "m": month, "d": day, "H": hour, "M": minute, "S": second}
        if offset is not None:
            date["z"] = offset if len(offset) != 3 else f"{offset}00"
        return _moment(date, zone) + (float(f"0.{fraction}") if fraction else 0.0)
    if match := _CLF.fullmatch(text):
        return _moment(dict(zip("dbYHMSz", match.groups(), strict=True)), zone)
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"expected a time in ISO 8601 or seconds since the epoch, got {text[:60]!r}") from None
    return since_epoch(number)


def since_epoch(number: float) -> float:
    """Return the seconds of a number of s, ms, us or ns since the epoch, by its size. Raises ValueError."""
    for limit, unit_s in _UNITS:
        if 0 < number < limit:
            return number * unit_s
    raise ValueError(f"expected seconds since the epoch, got {number!r}"[:120])


def _has_moment(fields: set[str]) -> bool:
    if "s" in fields:
        return True
    day = "j" in fields or (fields & {"m", "b"} and fields & {"d", "e"})
    hour = "H" in fields or fields >= {"I", "p"}
    return bool(fields & {"Y", "y"} and day and hour and fields >= {"M", "S"})


def expression(form: str, *, grouped: bool) -> str:
    """Return the regular expression of a form of strftime: with a group for each field, or with none.

    Raises ValueError for a field that cannot be read back.
    """
    for short, long in _SHORT.items():
        form = form.replace(f"%{short}", long)
    pieces: list[str] = []
    rest = iter(form)
    for character in rest:
        if character != "%":
            pieces.append(re.escape(character))
            continue
        field = next(rest, "")
        if field == "%":
            pieces.append("%")
        elif field not in _FIELDS:
            known = " ".join(f"%{name}" for name in (*_FIELDS, *_SHORT))
            raise ValueError(f"expected only the fields {known} in a time, got %{field}")
        elif not grouped or field in _NO_MOMENT:
            pieces.append(f"(?:{_FIELDS[field]})")
        else:
            pieces.append(f"(?P<{field}>{_FIELDS[field]})")
    return "".join(pieces)


def _offset_s(text: str) -> float:
    if text in {"Z", "z"}:
        return 0.0
    hours, minutes = int(text[1:3]), int(text[-2:])
    if minutes > 59 or hours > 23:
        raise ValueError(f"expected an offset from UTC, got {text!r}")
    return math.copysign(3600.0 * hours + 60.0 * minutes, -1 if text[0] == "-" else 1)


def _moment(fields: Mapping[str, str], zone: Zone | None) -> float:
    """Return seconds since the epoch; a leap second, 23:59:60, is the first of the next minute, as in POSIX."""
    if "s" in fields:
        return float(fields["s"])
    year = int(fields["Y"]) if "Y" in fields else _century(int(fields["y"]))
    hour = int(fields["H"]) if "H" in fields else int(fields["I"]) % 12 + 12 * (fields["p"].lower() == "pm")
    minute, second = int(fields["M"]), int(fields["S"])
    if hour > 23 or minute > 59 or second > 60:
        raise ValueError(f"expected a time of day, got {hour:02}:{minute:02}:{second:02}")
    if "j" in fields:
        date = dt.date(year, 1, 1) + dt.timedelta(days=int(fields["j"]) - 1)
        if date.year != year:
            raise ValueError(f"expected a day of the year {year}, got {fields['j']}")
    else:
        month = int(fields["m"]) if "m" in fields else MONTHS.get(fields["b"].lower(), 0)
        date = dt.date(year, month, int(fields["d"] if "d" in fields else fields["e"]))
    if "z" in fields:
        ahead_s = _offset_s(fields["z"])
    elif zone is not None:
        ahead_s = zone.offset_s(date.year, date.month, date.day, hour, minute)
    else:
        raise ValueError("expected a time with its offset from UTC; otherwise set time_zone")
    found = calendar.timegm((date.year, date.month, date.day, hour, minute, second)) - ahead_s
    if not 0 <= found < END:
        raise ValueError(f"expected a time between 1970 and 9999, got {found:.0f} s since the epoch")
    return found


def _century(year: int) -> int:
    """Return the year of two digits, as in POSIX: 69 to 99 are of the 20th century."""
    return year + (1900 if year >= 69 else 2000)
