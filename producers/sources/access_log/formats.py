r"""The languages in which servers define the lines of access logs: nginx's `log_format`, Apache's `LogFormat`.

Only the time, the status and the duration are read; everything else is skipped, but must be there. A text ends where
the next literal begins, and a quoted one at a quotation mark that no backslash escapes: nginx writes one inside as
`\x22`, Apache and nginx's `escape=json` as `\"`.

Both languages follow the documentation of the servers: ngx_http_log_module and mod_log_config.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from laggard.producers.sources.access_log.times import CLF, StrftimeReader, Zone, expression

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

NAMED: Final = {
    "nginx": (
        '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" '
        '"$http_user_agent" $request_time'
    ),
    "apache": '%h %l %u %t "%r" %>s %O "%{Referer}i" "%{User-Agent}i" %D',
    "traefik": '%h - %u %t "%r" %>s %b "%{Referer}i" "%{User-agent}i" %k "%{router}n" "%{server}n" %{ms}Tms',
}
"""Formats with a name: the combined ones of nginx and Apache with the duration at the end, and Traefik's "common"."""

_NUMBER: Final = r"\d{1,15}(?:\.\d{1,9})?"
_INTEGER: Final = r"-?\d{1,18}"
_STATUS: Final = r"\d{3}|-"
_ISO: Final = "%Y-%m-%dT%H:%M:%S%z"

# Text alone in its quotation marks, to the first that is not escaped; possessive, so that a line is rejected fast. The
# group is not: Python before 3.11.5 matches possessive groups wrongly, and what it gives back cannot match the rest.
_QUOTED: Final = r'[^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*'
_NGINX_VARIABLE: Final = re.compile(r"\$(?:(\w+)|\{(\w+)\})")
_NGINX_DIRECTIVE: Final = re.compile(r"\s*log_format\s+\S+\s+(?:escape=(\w+)\s+)?(.*?);?\s*", re.DOTALL)
_NGINX_STRING: Final = re.compile(r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|([^\s'"]+)""", re.DOTALL)
_APACHE_DIRECTIVE: Final = re.compile(r'\s*(?:LogFormat|CustomLog\s+\S+)\s+"((?:[^"\\]|\\.)*)".*', re.DOTALL)
_APACHE_FIELD: Final = re.compile(r"%(?P<which>[!<>\d,]*)(?:\{(?P<name>[^}]*)\})?(?P<field>\^ti|\^to|[A-Za-z%])")
_APACHE_TIME: Final = re.compile(r"%[!<>\d,]*(?:\{[^}]*\})?t")
_UNITS_S: Final = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
_PARTS_S: Final = {"sec": 1.0, "msec": 1e-3, "usec": 1e-6}
_FRACTIONS_S: Final = {"msec_frac": 1e-3, "usec_frac": 1e-6}


@dataclass(frozen=True, slots=True)
class Time:
    """The place of the time in a line: a number since the epoch, or pieces of a date and a fraction of a second.

    Attributes:
        number: the group and the unit in seconds of a number, or None.
        date: the groups of the pieces, and their reader, or None.
        fraction: the group and the unit in seconds of a fraction to add, or None.

    """

    number: tuple[int, float] | None = None
    date: tuple[tuple[int, ...], StrftimeReader] | None = None
    fraction: tuple[int, float] | None = None


@dataclass(frozen=True, slots=True)
class Duration:
    """The place of its duration: a group, the unit in seconds, and the function that reads the number."""

    group: int
    unit_s: float
    number: Callable[[bytes], float]


@dataclass(frozen=True, slots=True)
class TextFormat:
    """The form of a line, and the places of the values that are read. Groups count from 0.

    Attributes:
        pattern: the expression of a whole line, without its end, for whole blocks too (`re.MULTILINE`).
        time: the place of the time of the request.
        begins: whether that is the time of its beginning.
        duration: the place of its duration, or None if the format has none.
        status: the group of the status, or None if the format has none.
        text: the format, for errors.

    """

    pattern: re.Pattern[bytes]
    time: Time
    begins: bool
    duration: Duration | None
    status: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a line.

    Attributes:
        kind: `number`, `date`, `fraction`, `duration`, `times` (of several upstreams), `status` or "" (skipped).
        pattern: its expression, without groups; "" for any text.
        rank: of several fields of a kind, the one with the lowest rank is read.
        unit_s: the unit of a number, in seconds.
        form: the form of a date, in strftime's language.
        ends: whether a time is that of the end.

    """

    kind: str = ""
    pattern: str = ""
    rank: int = 0
    unit_s: float = 1.0
    form: str = ""
    ends: bool = False


def text_format(said: str, zone: Zone | None = None) -> TextFormat:
    """Return the form of lines of a format.

    Args:
        said: a name of `NAMED`; nginx's or Apache's format; or the whole directive of the server's configuration.
        zone: the zone of times without an offset.

    Raises:
        ValueError: it is not a format, or has no time; it says what was expected.

    """
    said = NAMED.get(said, said)
    tokens = list(_apache_tokens(said) if _APACHE_TIME.search(said) else _nginx_tokens(said))
    if not any(isinstance(token, Field) for token in tokens):
        names = ", ".join([*NAMED, "json"])
        raise ValueError(
            f"expected one of {names}, or a format of nginx ($time_local ...) or Apache (%t ...), got {said!r}"
        )
    if any(isinstance(token, str) and "\n" in token for token in tokens):
        raise ValueError(f"expected a format of one line, got {said!r}")
    return _compiled(_joined(tokens), said, zone)


def _nginx_tokens(log_format: str) -> Iterator[str | Field]:
    if directive := _NGINX_DIRECTIVE.fullmatch(log_format):
        # nginx joins the strings of a directive, and removes a backslash before a quotation mark or itself.
        strings = ("".join(one) for one in _NGINX_STRING.findall(directive[2]))
        log_format = re.sub(r"\\([\\'\"])", r"\1", "".join(strings))
    end = 0
    for variable in _NGINX_VARIABLE.finditer(log_format):
        if variable.start() > end:
            yield log_format[end : variable.start()]
        yield _NGINX_FIELDS.get(variable[1] or variable[2], Field())
        end = variable.end()
    if log_format[end:].rstrip("\n"):
        yield log_format[end:].rstrip("\n")


_NGINX_FIELDS: Final = {
    "msec": Field("number", _NUMBER, rank=0, ends=True),
    "time_iso8601": Field("date", "", rank=1, form=_ISO, ends=True),
    "time_local": Field("date", "", rank=2, form=CLF, ends=True),
    "request_time": Field("duration", f"{_NUMBER}|-", rank=0),
    "upstream_response_time": Field("times", r"[\d.,: -]*", rank=1),
    "status": Field("status", _STATUS),
}


def _apache_tokens(log_format: str) -> Iterator[str | Field]:
    if directive := _APACHE_DIRECTIVE.fullmatch(log_format):
        log_format = directive[1]
    for escape, character in (('\\"', '"'), ("\\t", "\t"), ("\\n", "\n")):
        log_format = log_format.replace(escape, character)
    log_format = log_format.rstrip("\n")
    end = 0
    for found in _APACHE_FIELD.finditer(log_format):
        if found.start() > end:
            yield log_format[end : found.start()]
        end = found.end()
        yield "%" if found["field"] == "%" else _apache_field(found["field"], found["name"], found["which"])
    if log_format[end:]:
        yield log_format[end:]


def _apache_field(field: str, name: str | None, which: str) -> Field:
    match field:
        case "t":
            return _apache_time(name or "")
        case "D":
            return Field("duration", f"{_INTEGER}|-", rank=0, unit_s=1e-6)
        case "T":
            unit = name or "s"
            if unit not in _UNITS_S:
                raise ValueError(f"expected %T, %{{s}}T, %{{ms}}T or %{{us}}T, got %{{{unit}}}T")
            rank = {"us": 0, "ms": 1, "s": 2}[unit]
            return Field("duration", f"{_INTEGER}|-", rank=rank, unit_s=_UNITS_S[unit])
        case "s":
            # After an internal redirect, the client saw the last status.
            return Field("status", _STATUS, rank=0 if ">" in which else 1)
    return Field()


def _apache_time(name: str) -> Field:
    which, colon, form = name.partition(":")
    if not colon or which not in {"begin", "end"}:
        which, form = "begin", name
    ends = which == "end"
    if form in _PARTS_S:
        return Field("number", r"\d{1,19}", unit_s=_PARTS_S[form], ends=ends)
    if form in _FRACTIONS_S:
        return Field("fraction", r"\d{3,6}", unit_s=_FRACTIONS_S[form], ends=ends)
    return Field("date", "", rank=1, form=form or f"[{CLF}]", ends=ends)


def _joined(tokens: Iterable[str | Field]) -> list[str | Field]:
    """Join literals that follow one another, and skipped fields likewise.

    Literals become the characters of their bytes in UTF-8, since logs are searched as bytes.
    """
    joined: list[str | Field] = []
    for token in tokens:
        last = joined[-1] if joined else None
        if isinstance(token, str):
            text = token.encode().decode("latin-1")
            if isinstance(last, str):
                joined[-1] = last + text
            else:
                joined.append(text)
        elif last is None or token != last or token.kind:
            joined.append(token)
    return joined


def _compiled(tokens: Sequence[str | Field], log_format: str, zone: Zone | None) -> TextFormat:
    fields = {index: token for index, token in enumerate(tokens) if isinstance(token, Field)}
    times = _time_of(fields)
    if len({fields[index].ends for index in times}) > 1:
        raise ValueError(f"expected the time of the begin or of the end, got parts of both in {log_format!r}")
    dates = [index for index in times if fields[index].kind == "date"]
    reader = StrftimeReader([fields[index].form for index in dates], zone) if dates else None
    duration, status = _best(fields, "duration", "times"), _best(fields, "status")
    read = sorted({*times, *(each for each in (duration, status) if each is not None)})
    group = {index: number for number, index in enumerate(read)}
    patterns = dict(zip(dates, reader.patterns, strict=True)) if reader else {}
    pieces = [
        re.escape(token)
        if isinstance(token, str)
        else f"({patterns.get(index, token.pattern)})"
        if index in group
        else f"(?:{token.pattern or expression(token.form, grouped=False)})"
        if token.kind
        else _any_text(tokens, index)
        for index, token in enumerate(tokens)
    ]

    def number(kind: str) -> tuple[int, float] | None:
        return next(((group[index], fields[index].unit_s) for index in times if fields[index].kind == kind), None)

    return TextFormat(
        re.compile(f"^{''.join(pieces)}\\r?$".encode("latin-1"), re.MULTILINE),
        Time(
            number("number"), (tuple(group[index] for index in dates), reader) if reader else None, number("fraction")
        ),
        not fields[times[0]].ends,
        None
        if duration is None
        else Duration(group[duration], fields[duration].unit_s, _NUMBERS[fields[duration].kind]),
        None if status is None else group[status],
        log_format,
    )


def _time_of(fields: Mapping[int, Field]) -> list[int]:
    """Return the fields with the time: one number, or the pieces of a date and a fraction."""
    best = _best(fields, "number", "date")
    if best is None:
        raise ValueError("expected a time in the format: $time_local, $time_iso8601 or $msec of nginx, %t of Apache")
    if fields[best].kind == "number":
        return [best]
    pieces = [index for index, field in fields.items() if field.kind == "date" and field.rank == fields[best].rank]
    once = {fields[index].form: index for index in reversed(pieces)}
    fraction = _best(fields, "fraction")
    return sorted(once.values()) + ([] if fraction is None else [fraction])


def _best(fields: Mapping[int, Field], *kinds: str) -> int | None:
    """Return the field to read among several of these kinds; None if there is none."""
    found = [index for index, field in fields.items() if field.kind in kinds]
    return min(found, key=lambda index: (fields[index].rank, index), default=None)


def _any_text(tokens: Sequence[str | Field], index: int) -> str:
    """Return the expression of a skipped text."""
    if index + 1 == len(tokens):
        return r"[^\n]*"
    before, after = tokens[index - 1] if index else "", tokens[index + 1]
    if isinstance(after, Field):
        return r"[^\n]*?"
    if after[0] == '"' and isinstance(before, str) and before.endswith('"'):
        return _QUOTED
    first, rest = re.escape(after[0]), re.escape(after[1:])
    others = f"[^{first}\\n]*+"
    return f"{others}(?:{first}(?!{rest}){others})*" if rest else others


def duration_number(text: bytes) -> float:
    """Return the number, or NaN for `-`."""
    return float("nan") if text == b"-" else float(text)


def sum_of_upstreams(text: bytes) -> float:
    """Return the seconds of all upstreams that nginx tried for one request: `0.010, 0.020 : 0.005`; NaN without one."""
    numbers = [float(one) for one in re.split(rb"[,: ]+", text) if one and one != b"-"]
    return sum(numbers) if numbers else float("nan")


_NUMBERS: Final = {"duration": duration_number, "times": sum_of_upstreams}
