"""Generate `deploy/docs/reference/records.md`, the reference of public records, from their declarations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from deploy.generate.asyncapi import SCHEMAS
from laggard.pipeline.core.records.declared import KEY_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from laggard.pipeline.core.records.declared import Schema

_INTRODUCTION: Final = """\
# Records

The records on the topics of [anomalies](anomalies.md), [models](models.md) and [diagnoses](diagnoses.md), and in the
output of `laggard replay --json`. Each is a JSON object of a `kind`. Their JSON Schemas are in
[schemas](../../schemas). This page is generated from the same declarations.

Unknown numbers, and those that JSON cannot represent, are null. A member marked with * may be absent: an older version
did not write it, or it does not apply.
"""


def records_page() -> str:
    """Return the page."""
    parts = {name: part for schema in SCHEMAS.values() for name, part in schema.get("$defs", {}).items()}
    kinds = (line for kind, schema in SCHEMAS.items() for line in _section(f"## `{kind}`", schema))
    inner = (line for name in sorted(parts) for line in _section(f"### `{name}`", parts[name]))
    return "\n".join([_INTRODUCTION, *kinds, _PARTS, *inner]).rstrip()


_PARTS: Final = """\
## Parts

The types of the members above.
"""


def _section(title: str, schema: Schema) -> Iterator[str]:
    yield from (title, "", schema["description"], "")
    yield from _members(schema)


def _members(schema: Schema) -> Iterator[str]:
    yield from ("| member | type | meaning |", "|---|---|---|")
    keyed = "oneOf" in schema
    for name, member in schema["properties"].items():
        if keyed and name in KEY_NAMES:
            continue
        marked = "" if name in schema["required"] else "*"
        described = member.get("description", "").replace("|", "\\|")
        yield f"| `{name}`{marked} | {type_of(member)} | {described} |"
    if keyed:
        names = ", ".join(f"`{each}`" for each in KEY_NAMES)
        yield f"| {names} | text | Exactly one of these: the subject of the record, and its key. |"
    yield ""


def type_of(member: Schema) -> str:
    """Return the type of a member in words, with links to the sections on its parts."""
    match member:
        case {"const": value}:
            found = f"`{value}`"
        case {"$ref": reference}:
            name = str(reference).rpartition("/")[2]
            found = f"[{name}](#{name.lower()})"
        case {"anyOf": types}:
            found = " or ".join(map(type_of, types))
        case {"enum": values}:
            found = ", ".join(f"`{each}`" if each else "empty" for each in values)
        case {"type": "array", "items": {"type": _} | {"$ref": _} as items}:
            found = f"list of {type_of(items)}"
        case {"type": list(types)}:
            found = " or ".join(_NAMES[each] for each in types)
        case _:
            found = _NAMES[member["type"]]
    return found


_NAMES: Final = {
    "string": "text",
    "number": "number",
    "integer": "whole number",
    "boolean": "true or false",
    "object": "object",
    "array": "list",
    "null": "null",
}
