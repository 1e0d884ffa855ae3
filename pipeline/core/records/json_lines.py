"""Records as lines of JSON, for recordings that people make and read: one object per line, in seven forms.

```
{"ts": 1700000000.0, "host": "web-1", "scope": "process", "rows": {"nginx[7]": {"cpu_user_ratio": 0.12}}}
{"ts": 1700000000.0, "application": "shop", "hosts": ["web-1", "db-1"], "performance": {"response_time_p95_s": 0.21}}
{"ts": 1700000000.0, "pool": "workers", "rows": {"worker-1": {"cpu_ratio": 0.4}}}
{"ts": 1700000007.5, "host": "web-1", "mark": "checkout hangs"}
{"ts": 1700000009.0, "application": "shop", "wish": "pin", "metric": "web-1/nginx:cpu_wait_ratio"}
{"ts": 1700000099.0, "host": "web-1", "feedback": "usual", "id": "5f0c", "cases": [{"name": "backup"}]}
{"ts": 1700000000.0, "service": "blog", "request": "r1", "duration_s": 0.1, "counts": {}, "times_s": {}, "syscalls": []}
```

Any form may have a `sequence`. The name of a row is the part of its id before the first `[` (the whole id if that part
is empty), unless `names` has another one by row id. `commands`, `users` and `containers` have further texts for people,
likewise. All of these are optional. The default scope is `process`, `performance` or `member`; `performance` is short
for one row with the name of the application. A feature that a row does not have, or that is null, is NaN. A request may
also have `host`, `name`, `critical_s`, `spent`, `threads`, `path`, `notes` and `missing_ratio`, as in `Request`: an
entry of `spent` is an object, `{"state": "BN", "syscall": "connect", "on": "127.0.0.1:3306", "result": "ECONNREFUSED",
"times": 57, "time_s": 0.02}`, one of `path` a list, `[0, 0.0, 0.02, "BN", "connect"]`.

The JSON is strict, see `strict_json.py`; infinity is written as `1e999`. A field that the form does not have is
refused, so that no mistake is silent.
"""

from __future__ import annotations

import json
import sys
import threading
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from laggard.pipeline.core.records import checked, checks
from laggard.pipeline.core.records.errors import RecordError, shown
from laggard.pipeline.core.records.feedback import KEYS, Feedback, checked_feedback, plain_feedback
from laggard.pipeline.core.records.frame import UNNUMBERED, Frame, KeyedBy, Layout, Mark, Wish
from laggard.pipeline.core.records.layout import ROW_TEXTS, checked_layout
from laggard.pipeline.core.records.limits import MAX_CELLS, MAX_NAME, MAX_NOTE, MAX_SPENT
from laggard.pipeline.core.records.memory import LayoutMemory
from laggard.pipeline.core.records.requests import Request, Spent
from laggard.pipeline.core.records.strict_json import parse_object

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from laggard.pipeline.core.records.checked import Received

SCOPES: Final[Mapping[KeyedBy, str]] = {"host": "process", "application": "performance", "pool": "member"}
"""The default scopes, by the kind of key."""

_COMMON: Final = ("ts", "sequence")
_ROWS: Final = ("scope", "rows", "names", *ROW_TEXTS)
_FORMS: Final[Mapping[str, tuple[str, ...]]] = {
    "feedback": (*_COMMON, *KEYS, "feedback", "id", "cases", "until_ts", "incident", "note"),
    "mark": (*_COMMON, "host", "mark"),
    "request": tuple(Request.__slots__),
    "wish": (*_COMMON, "application", "wish", "metric"),
    "performance": (*_COMMON, "application", "hosts", "performance"),
    "application": (*_COMMON, "application", "hosts", *_ROWS),
    "pool": (*_COMMON, "pool", "hosts", *_ROWS),
    "host": (*_COMMON, "host", *_ROWS),
}
"""The fields of each form, by the field that distinguishes it from the forms below."""

_REQUEST_ALWAYS: Final = frozenset(("service", "ts", "request", "duration_s", "counts", "times_s", "syscalls"))
_SPENT_DEFAULTS: Final[Mapping[str, Any]] = {"syscall": "", "on": "", "by": "", "pid": 0, "result": "", "times": 1}
"""The defaults of omitted fields of an entry of `spent`."""

_NUMBERS: Final = {float, int, type(None)}
_LARGEST: Final = sys.float_info.max

# No text in a record contains U+0000, so that none is mistaken for these.
_INFINITE: Final = "\0+"
_MINUS_INFINITE: Final = "\0-"


class _Remembered(threading.local):
    """Layouts by their texts in a line."""

    def __init__(self) -> None:
        self.layouts = LayoutMemory[tuple[Any, ...]](most_bytes=8 << 20)


_remembered = _Remembered()


def read_line(line: str | bytes, place: str) -> Received:
    """Return the record of one line.

    Frames with the same rows, features, names and other texts get the same `Layout` while it is remembered, in each
    thread.

    Args:
        line: JSON, as bytes in UTF-8; white space around it is ignored.
        place: its origin, for errors: `day.jsonl:17`.

    Raises:
        RecordError: the line is not JSON, in none of the forms, or beyond a limit.

    """
    fields = parse_object(line, place)
    form = next((each for each in _FORMS if each in fields), "")
    if not form:
        expected = "one of the fields 'host', 'application', 'pool', 'mark', 'request', 'wish' and 'feedback'"
        raise RecordError(place, "", expected, "none of them")
    if unknown := fields.keys() - set(_FORMS[form]):
        raise RecordError(place, "", f"only the fields {', '.join(_FORMS[form])}", shown(min(unknown)))
    fields.setdefault("sequence", UNNUMBERED)
    match form:
        case "feedback":
            keyed_by = [each for each in KEYS if each in fields]
            if len(keyed_by) != 1:
                expected = f"one of the fields {', '.join(KEYS)}"
                raise RecordError(place, "", expected, " and ".join(keyed_by) or "none of them")
            named = {"keyed_by": keyed_by[0], "key": fields[keyed_by[0]], "says": fields["feedback"]}
            return checked_feedback(fields | named, place)
        case "mark":
            note = checks.text(fields["mark"], "mark", place, MAX_NOTE)
            return checked.mark(fields | {"note": note}, place)
        case "request":
            return checked.request(_request_fields(fields, place), place)
        case "wish":
            return checked.wish(fields, place)
        case "host" | "pool":
            return _frame(form, fields, place)
    return _frame("application", fields, place)


def write_line(record: Received) -> str:
    """Return the line, in ASCII and without the line feed, from which `read_line` reads the same record.

    The record is the same bit for bit, except that every NaN is the usual one. The features of a frame without rows are
    lost.

    Raises:
        RecordError: a field is of the wrong type or shape, or beyond a limit.

    """
    written: dict[str, Any] = {"ts": float(record.ts)}
    match record:
        case Frame():
            written |= _frame_fields(record)
        case Mark():
            checked.mark(checked.fields_of(record), "")
            written |= {"host": record.host, "mark": record.note}
        case Request():
            written |= _request_object(checked.request(checked.fields_of(record), ""))
        case Wish():
            written |= checked.fields_of(checked.wish(checked.fields_of(record), ""))
        case Feedback():
            plain = plain_feedback(checked_feedback(checked.fields_of(record), ""))
            written |= {plain.pop("keyed_by"): plain.pop("key"), "feedback": plain.pop("says")} | plain
    written["sequence"] = record.sequence
    if record.sequence == UNNUMBERED:
        del written["sequence"]
    line = json.dumps(written, separators=(",", ":"), allow_nan=False)
    return line.replace(json.dumps(_INFINITE), "1e999").replace(json.dumps(_MINUS_INFINITE), "-1e999")


def name_of(row: str) -> str:
    """Return the default name of a row: the part of its id before the first `[`, or the whole id if that is empty."""
    return row.partition("[")[0] or row


def _frame(keyed_by: KeyedBy, fields: dict[str, Any], place: str) -> Frame:
    key = checks.key(fields.get(keyed_by), keyed_by, place)
    field = "performance" if "performance" in fields else "rows"
    rows = _rows({key: fields[field]} if field == "performance" else fields.get(field), field, place)
    features, values = _matrix(rows, field, place)
    names = _by_row("names", fields.get("names", {}), rows, place, shortest=1, longest=MAX_NAME)
    texts = {
        field: _by_row(field, fields[field], rows, place, shortest=0, longest=longest)
        for field, longest in ROW_TEXTS.items()
        if field in fields
    }

    def make() -> Layout:
        named = [names.get(row) or name_of(row) for row in rows]
        row_texts = {field: [each.get(row, "") for row in rows] for field, each in texts.items()}
        return checked_layout(tuple(rows), named, features, row_texts, place=place)

    layout_key = tuple(rows), features, tuple(names.items()), *((field, *each.items()) for field, each in texts.items())
    layout = _remembered.layouts.get(layout_key, make)
    return checked.frame({"keyed_by": keyed_by, "key": key, "scope": SCOPES[keyed_by]} | fields, layout, values, place)


def _request_fields(fields: dict[str, Any], place: str) -> dict[str, Any]:
    """Return the fields of a request with the omitted ones, and with lists as entries of `spent`."""
    found = {"counts": {}, "times_s": {}, "syscalls": ()} | fields
    if "spent" in fields:
        entries = checks.items(fields["spent"], "spent", place, MAX_SPENT)
        found["spent"] = [_spent_fields(each, f"spent[{number}]", place) for number, each in enumerate(entries)]
    return found


def _spent_fields(entry: Any, field: str, place: str) -> list[Any]:
    if not isinstance(entry, dict):
        raise RecordError(place, field, "an object", shown(entry))
    if unknown := entry.keys() - set(Spent._fields):
        raise RecordError(place, field, f"only the fields {', '.join(Spent._fields)}", shown(min(unknown)))
    return [entry.get(name, _SPENT_DEFAULTS.get(name)) for name in Spent._fields]


def _request_object(request: Request) -> dict[str, Any]:
    """Return the fields of a request for a line, without empty ones that may be omitted."""
    written = {name: value for name, value in checked.fields_of(request).items() if value or name in _REQUEST_ALWAYS}
    if request.spent:
        written["spent"] = [
            {name: value for name, value in each._asdict().items() if value != _SPENT_DEFAULTS.get(name)}
            for each in request.spent
        ]
    return written


def _rows(value: Any, field: str, place: str) -> dict[str, dict[str, Any]]:
    if not isinstance(value, dict):
        raise RecordError(place, field, "an object of rows", shown(value))
    for row, each in value.items():
        if not isinstance(each, dict):
            raise RecordError(place, _path(field, row), "an object of features and numbers", shown(each))
    return value


def _path(field: str, row: str) -> str:
    """Return the path of a row in the line."""
    return field if field == "performance" else f"{field}[{shown(row)}]"


def _by_row(
    field: str, value: Any, rows: Mapping[str, Any], place: str, *, shortest: int, longest: int
) -> dict[str, str]:
    if not isinstance(value, dict):
        raise RecordError(place, field, "an object of row ids and texts", shown(value))
    if strangers := value.keys() - rows.keys():
        raise RecordError(place, field, "ids of rows in the same line", shown(min(strangers)))
    return {
        row: checks.text(each, f"{field}[{shown(row)}]", place, longest, shortest=shortest)
        for row, each in value.items()
    }


def _matrix(rows: Mapping[str, dict[str, Any]], field: str, place: str) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    """Return the features of all rows, in the order in which they occur, and the values."""
    features = tuple(next(iter(rows.values()), ()))
    if all(tuple(each) == features for each in rows.values()):
        cells = list(chain.from_iterable(each.values() for each in rows.values()))
    else:
        features = tuple(dict.fromkeys(chain.from_iterable(rows.values())))
        if len(rows) * len(features) > MAX_CELLS:
            got = f"{len(rows):,} x {len(features):,}"
            raise RecordError(place, "rows", f"at most {MAX_CELLS:,} rows x features", got)
        cells = [each.get(feature) for each in rows.values() for feature in features]
    if set(map(type, cells)) - _NUMBERS:  # numpy would accept booleans and digits in quotes, too
        raise _no_number(rows, field, place)
    try:
        values = np.array(cells, dtype=np.float64).reshape(len(rows), len(features))
    except OverflowError:
        raise _no_number(rows, field, place) from None
    values.setflags(write=False)
    return features, values


def _no_number(rows: Mapping[str, dict[str, Any]], field: str, place: str) -> RecordError:
    """Return the error for the first value that is no number."""
    row, feature, value = next(
        (row, feature, value)
        for row, each in rows.items()
        for feature, value in each.items()
        if type(value) not in _NUMBERS or (type(value) is int and abs(value) > _LARGEST)
    )
    expected = "a number that float64 can hold, or null"
    return RecordError(place, f"{_path(field, row)}[{shown(feature)}]", expected, shown(value))


def _frame_fields(frame: Frame) -> dict[str, Any]:
    checked.frame(checked.fields_of(frame), frame.layout, frame.values, "")
    if frame.keyed_by not in SCOPES:
        raise RecordError("", "keyed_by", f"one of {', '.join(map(repr, SCOPES))}", shown(frame.keyed_by))
    layout = frame.layout
    written: dict[str, Any] = {frame.keyed_by: frame.key}
    if frame.hosts:
        written["hosts"] = frame.hosts
    rows = [dict(zip(layout.features, each, strict=True)) for each in _cells(frame.values)]
    is_default = frame.scope == SCOPES[frame.keyed_by]
    if (
        frame.keyed_by == "application"
        and is_default
        and layout.rows == layout.names == (frame.key,)
        and not any(getattr(layout, field) for field in ROW_TEXTS)
    ):
        return written | {"performance": rows[0]}
    if not is_default:
        written["scope"] = frame.scope
    written["rows"] = dict(zip(layout.rows, rows, strict=True))
    named = zip(layout.rows, layout.names, strict=True)
    if names := {row: name for row, name in named if name != name_of(row)}:
        written["names"] = names
    for field in ROW_TEXTS:
        if texts := getattr(layout, field):
            written[field] = {row: each for row, each in zip(layout.rows, texts, strict=True) if each}
    return written


def _cells(values: NDArray[np.float64]) -> list[list[Any]]:
    """Return the values in a form that JSON has."""
    cells: Any = values
    if not np.isfinite(values).all():
        cells = values.astype(object)
        cells[np.isnan(values)] = None
        cells[values == np.inf] = _INFINITE
        cells[values == -np.inf] = _MINUS_INFINITE
    return cast("list[list[Any]]", cells.tolist())
