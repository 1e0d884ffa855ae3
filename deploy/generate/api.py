"""Generate `deploy/docs/reference/api.md`, the reference of the page's API, from its OpenAPI document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from deploy.generate.records import type_of
from laggard.pipeline.investigator.app import ENDPOINTS
from laggard.pipeline.investigator.openapi import PREFIX, REFUSALS, document

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from laggard.pipeline.core.records.declared import Schema

_INTRODUCTION: Final = f"""\
# The API of the page

All content of [the page](../tasks/page.md) is JSON below `{PREFIX}`, at the address of `laggard serve`.
`{PREFIX}/openapi.json` is its OpenAPI 3.1 document, from which you can generate clients. This page is generated from
the same declarations.

- Parameters are in the query. The body of a `POST` is one JSON object.
- Times are seconds since the Unix epoch. The end of a number's name is its unit. `null` means unknown.
- [Access to the page](../operations/access.md) says when a token is required.

```sh
curl 'http://127.0.0.1:9463{PREFIX}/moment?host=web-1'  # with the header below where a token is required
curl -H 'Authorization: Bearer TOKEN' -H 'Content-Type: application/json' \\
    -d '{{"host": "web-1", "note": "checkout hangs"}}' https://laggard.example.com{PREFIX}/marks
```

Bodies of other requests:

| endpoint | body |
|---|---|
| `POST /feedback` | `{{"says": "usual", "incident": "ID"}}` |
| `POST /feedback` | `{{"says": "expected", "host": "web-1", "until": 1795000000, "note": "load test"}}` |
| `POST /pipeline/replays` | `{{"partition": 0, "offset": 12}}` |

`{PREFIX}/live` is a stream of server-sent events, `{{"topics": ["anomalies"]}}`: the topics that have grown. A client
should request their data again. `/-/healthy` is for probes and requires no token.

## Errors

A rejected request gets a status of 400 or more and `{{"error": ..., "expected": ...}}`. With 429 and 503, `Retry-After`
has the time to wait.
"""

_TYPES: Final = """\
## Types

The types of bodies and answers. A member or parameter marked with * may be absent.
"""


def api_page() -> str:
    """Return the page."""
    found = document(ENDPOINTS)
    lines = [_INTRODUCTION, "| status | meaning |", "|---|---|"]
    lines += [f"| {status} | {meaning} |" for status, meaning in REFUSALS.items()]
    lines += ["", "## Endpoints", ""]
    for path, methods in found["paths"].items():
        for method, operation in methods.items():
            lines += _endpoint(f"{method.upper()} {path.removeprefix(PREFIX)}", operation)
    lines.append(_TYPES)
    for name, schema in sorted(found["components"]["schemas"].items()):
        lines += [f"### `{name}`", "", _sentence(schema.get("description", "A rejected request.")), ""]
        lines += _members(schema["properties"], schema.get("required", ()))
    return "\n".join(lines).rstrip() + "\n"


def _endpoint(title: str, operation: Schema) -> Iterator[str]:
    (status,) = (each for each in operation["responses"] if each.startswith("2"))
    answer = type_of(_schema(operation["responses"][status]))
    yield from (f"### `{title}`", "", operation["summary"], "")
    if parameters := {each["name"]: each["schema"] for each in operation["parameters"]}:
        needed = [each["name"] for each in operation["parameters"] if each["required"]]
        yield from _members(parameters, needed, "parameter")
    body = f"Body: {type_of(_schema(operation['requestBody']))}. " if "requestBody" in operation else ""
    created = "" if status == "200" else f", with status {status}"
    yield from (f"{body}Answer: {answer}{created}.", "")


def _schema(content: Schema) -> Schema:
    schema: Schema = content["content"]["application/json"]["schema"]
    return schema


def _members(members: Mapping[str, Schema], required: Collection[str], kind: str = "member") -> Iterator[str]:
    yield from (f"| {kind} | type | meaning |", "|---|---|---|")
    for name, member in members.items():
        marked = "" if name in required else "*"
        yield f"| `{name}`{marked} | {type_of(member)}{_bounds(member)} | {_meaning(member)} |"
    yield ""


def _meaning(member: Schema) -> str:
    inner = next((each["description"] for each in member.get("anyOf", ()) if "description" in each), "")
    found = _sentence(member.get("description") or inner)
    default = member.get("default")
    if default in (None, "", [], {}):
        return found
    shown = str(default).lower() if isinstance(default, bool) else default
    return f"{found} Default: `{shown}`.".strip()


def _bounds(member: Schema) -> str:
    """Return the bounds of a number, in words; those of times, and of texts, are larger than users need."""
    low, high = member.get("minimum"), member.get("maximum")
    return f", {low} to {high}" if low is not None and high is not None and high < 1e9 else ""


def _sentence(text: str) -> str:
    text = text.replace("|", "\\|").replace("\n", " ").strip()
    return text if not text or text.endswith(".") else f"{text[0].upper()}{text[1:]}."
