"""Unambiguous JSON, with bounds on the cost of hostile text."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any, Final, NoReturn, cast

from laggard.pipeline.core.records.errors import RecordError, shown
from laggard.pipeline.core.records.limits import MAX_CELLS, MAX_PLAIN_BYTES, MAX_RECORD_BYTES

_WANTED: Final = {
    "Expecting value": "a value",
    "Expecting property name": "a name in double quotes",
    "Expecting ','": "a comma or the end of an object or list",
    "Expecting ':'": "a colon",
    "Illegal trailing comma": "no comma before the end of an object or list",
    "Unterminated string": "a text that ends, for the one",
    "Invalid control character": "no control character in a text",
    "Invalid \\": "an escape that there is",
    "Extra data": "nothing more",
}
"""The expected text, by the beginning of a message of Python's parser."""

_SHOWN: Final = 20  # characters of the unexpected text

MAX_CONTAINERS: Final = 1_000_000
MAX_COMMAS: Final = MAX_CELLS + MAX_CONTAINERS
"""Both are per text. They limit its objects to some hundred megabytes, whatever its contents."""


def json_number(value: float) -> float | None:
    """Return a number for JSON: NaN and infinity, which JSON does not have, are null."""
    return float(value) if math.isfinite(value) else None


def parse_object(text: str | bytes, place: str) -> dict[str, Any]:
    """Return the object of a text.

    `NaN` and `Infinity`, which are no JSON, are refused, and so are duplicate names in one object. A number beyond
    float64 such as `1e999` is infinite.

    Args:
        text: JSON, as bytes in UTF-8.
        place: its origin, for errors.

    Raises:
        RecordError: the text is no strict JSON, no object, or beyond a limit.

    """
    if len(text) > MAX_RECORD_BYTES:
        raise RecordError(place, "", f"JSON of at most {MAX_RECORD_BYTES:,} bytes", f"{len(text):,}")
    try:
        found = _parse(text if isinstance(text, str) else text.decode())
    except UnicodeDecodeError as error:
        raise RecordError(place, "", "UTF-8", f"{error.reason} at byte {error.start:,}") from None
    except json.JSONDecodeError as error:
        raise _no_json(error, place) from None
    except _Refused as error:
        raise RecordError(place, "", "strict JSON", str(error)) from None
    except RecursionError:
        raise RecordError(place, "", "JSON", "values nested too deeply") from None
    except ValueError:  # Python's limit for integers, whose message is for programmers
        raise RecordError(place, "", "JSON", "an integer of thousands of digits") from None
    if isinstance(found, dict):
        return cast("dict[str, Any]", found)
    raise RecordError(place, "", "a JSON object", shown(found))


def _no_json(error: json.JSONDecodeError, place: str) -> RecordError:
    """Return the error of Python's parser in laggard's words."""
    wanted = next((ours for theirs, ours in _WANTED.items() if error.msg.startswith(theirs)), "something else")
    rest = error.doc[error.pos : error.pos + _SHOWN]
    got = ascii(rest) if rest.strip() else "its end" if error.doc.strip() else "nothing"
    return RecordError(place, "", f"JSON with {wanted} at character {error.pos + 1:,}", got)


class _Refused(ValueError):  # noqa: N818 - never leaves this file
    """The error for text that many JSON readers accept."""


def _parse(text: str) -> Any:
    if len(text) > MAX_PLAIN_BYTES:
        if text.count("{") + text.count("[") > MAX_CONTAINERS:
            raise _Refused(f"more than {MAX_CONTAINERS:,} objects and lists")
        if text.count(",") > MAX_COMMAS:
            raise _Refused(f"more than {MAX_COMMAS:,} values")
    return _DECODER.decode(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    [(twice, _)] = Counter(name for name, _ in pairs).most_common(1)
    raise _Refused(f"the name {shown(twice)} twice in one object")


def _constant(name: str) -> NoReturn:
    raise _Refused(name)


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant)
