"""The OpenAPI document of the API, derived from its endpoints."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.pipeline.investigator.endpoint import Endpoint

PREFIX: Final = "/api/v1"

KEY_HEADER: Final = "X-Laggard-Session"
"""The header with the key of a session."""

REFUSALS: Final = {
    400: "a parameter or a field is wrong",
    401: "no token, or none that is known",
    403: "another site, another host, or a reader that wants to change something",
    404: "there are no records of it",
    408: "the body did not come",
    409: "it was done already, or cannot be done to this",
    413: "the body is too long",
    414: "the query is too long",
    415: "the body is not application/json",
    429: "too many requests at once",
    431: "the headers are too long",
    500: "it failed; the reason is in the log of laggard",
    503: "the bus cannot be used now",
}
"""The errors of an endpoint by status; each answer is a `Refusal`."""

_REFUSAL: Final = {
    "type": "object",
    "required": ["error", "expected"],
    "properties": {
        "error": {"type": "string", "description": "what is wrong"},
        "expected": {"type": "string", "description": "what was expected instead"},
    },
}


def document(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document as JSON objects."""
    kinds: list[Any] = [each.answer for each in endpoints]
    kinds += [each.body for each in endpoints if each.body is not None]
    schemas, components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    found = dict(zip(kinds, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for each in endpoints:
        operation: dict[str, Any] = {
            "operationId": f"{each.method.lower()}_{each.path.strip('/').replace('/', '_')}",
            "summary": each.summary,
            "parameters": _parameters(each),
            "responses": {
                str(each.status): _content("the answer", found[each.answer]),
                **{
                    str(status): _content(description, {"$ref": "#/components/schemas/Refusal"})
                    for status, description in REFUSALS.items()
                },
            },
        }
        if each.body is not None:
            operation["requestBody"] = {"required": True} | _content("", found[each.body])
            operation["requestBody"].pop("description")
        paths.setdefault(PREFIX + each.path, {})[each.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "laggard",
            "version": version("laggard"),
            "summary": "The data of laggard's page: what is slow on machines, and the culprits.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{}, {"token": []}, {"cookie": [], "key": []}],
        "paths": paths,
        "components": {
            "schemas": {**components, "Refusal": _REFUSAL},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "serve.token, or serve.read_token"},
                "cookie": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "laggard-PORT",
                    "description": "of a session, which needs its key, too",
                },
                "key": {"type": "apiKey", "in": "header", "name": KEY_HEADER},
            },
        },
    }


def _content(description: str, schema: Any) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    _, components = msgspec.json.schema_components([endpoint.question], ref_template="{name}")
    schema = components[endpoint.question.__name__]
    required = set(schema.get("required", ()))
    return [
        {"name": name, "in": "query", "required": name in required, "schema": each}
        for name, each in schema["properties"].items()
    ]
