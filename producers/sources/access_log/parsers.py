"""The parser of a log, by its configuration."""

from __future__ import annotations

from dataclasses import fields as fields_of
from typing import TYPE_CHECKING, Final

from laggard.producers.sources.access_log.formats import text_format
from laggard.producers.sources.access_log.json_lines import JsonFields, JsonParser
from laggard.producers.sources.access_log.text import TextParser
from laggard.producers.sources.access_log.times import Zone

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laggard.producers.sources.access_log.requests import Parser

JSON: Final = "json"
"""The format of lines that are JSON objects."""


def parser_of(said: str, fields: Mapping[str, object], time_zone: str = "") -> Parser:
    """Return the parser of the lines of a log.

    Args:
        said: the format: `json`, or one of `text_format`.
        fields: for JSON, the attributes of `JsonFields`; empty for the known ones.
        time_zone: the zone of times without an offset; empty if all have one.

    Raises:
        ValueError: one of them is invalid; it says what was expected.

    """
    zone = Zone(time_zone) if time_zone else None
    if said != JSON:
        if fields:
            raise ValueError(f"expected fields only with the format {JSON}")
        return TextParser(text_format(said, zone))
    return JsonParser(_json_fields(fields) if fields else None, zone)


def _json_fields(table: Mapping[str, object]) -> JsonFields:
    names = [each.name for each in fields_of(JsonFields)]
    if unknown := table.keys() - names:
        raise ValueError(f"expected only {', '.join(names)} in fields, got {min(unknown)!r}")
    if missing := {"time", "duration", "status"} - table.keys():
        raise ValueError(f"expected the field {min(missing)!r}, too")
    begins = table.get("begins", False)
    texts = {name: value for name, value in table.items() if name != "begins"}
    if not isinstance(begins, bool) or not all(isinstance(value, str) and value for value in texts.values()):
        raise ValueError("expected names of fields, and begins = true or false")
    return JsonFields(**{name: str(value) for name, value in texts.items()}, begins=begins)
