"""Grafana's OpenAPI documents, as far as laggard calls it (openapi/), and whether requests and answers fit them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote

import jsonschema

DOCUMENTS = Path(__file__).parent / "openapi"


class Document:
    """One version's OpenAPI document."""

    def __init__(self, version: str) -> None:
        found = json.loads((DOCUMENTS / f"grafana-{version}.json").read_text(encoding="utf-8"))
        self.definitions: dict[str, Any] = found["definitions"]
        self._closed = closed(self.definitions)
        self.operations = [
            (method.upper(), re.compile(re.sub(r"\{\w+\}", "([^/]+)", path)), operation)
            for path, methods in found["paths"].items()
            for method, operation in methods.items()
        ]

    def find(self, method: str, path: str) -> tuple[dict[str, Any], list[str]] | None:
        for its_method, pattern, operation in self.operations:
            if its_method == method and (match := pattern.fullmatch(path)):
                return operation, [unquote(part) for part in match.groups()]
        return None

    def has_path(self, path: str) -> bool:
        return any(pattern.fullmatch(path) for _, pattern, _ in self.operations)

    def check(self, schema: dict[str, Any], value: Any, *, strict: bool) -> list[str]:
        """What of the value does not fit; strictly, a field that is not in the document does not either."""
        definitions = self._closed if strict else self.definitions
        wanted = closed({"": schema})[""] if strict else schema
        validator = jsonschema.Draft4Validator(
            {**wanted, "definitions": definitions}, format_checker=jsonschema.FormatChecker(("date-time",))
        )
        return [f"{'.'.join(map(str, error.path))}: {error.message[:200]}" for error in validator.iter_errors(value)]

    def read(
        self, operation: dict[str, Any], query: str, headers: Any, body: bytes
    ) -> tuple[dict[str, Any], list[str]]:
        """What was asked, by parameter (the body is `command`), and what of it does not fit."""
        wrong: list[str] = []
        parameters = {(each["in"], each["name"]): each for each in operation["parameters"]}
        asked: dict[str, Any] = {}
        for key, values in parse_qs(query, keep_blank_values=True, strict_parsing=bool(query)).items():
            parameter = parameters.get(("query", key))
            if parameter is None:
                wrong.append(f"no query parameter {key}")
                continue
            read = [parsed(value, parameter.get("items", parameter).get("type")) for value in values]
            if None in read or (len(read) > 1 and parameter["type"] != "array"):
                wrong.append(f"query parameter {key} is {values}")
            asked[key] = read if parameter["type"] == "array" else read[0]
        own = [name for name in headers if name.startswith("X-")]
        wrong += [f"no header {name}" for name in own if ("header", name) not in parameters]
        if ("body", "body") not in parameters:
            if body:
                wrong.append(f"expected no body, got {body[:100]!r}")
            return asked, wrong
        if headers.get("Content-Type") != "application/json":
            wrong.append(f"expected JSON, got {headers.get('Content-Type')}")
        command = json.loads(body)
        wrong += self.check(parameters["body", "body"]["schema"], command, strict=True)
        return {**asked, "command": command}, wrong


def closed(schemas: Any) -> Any:
    """The schemas, where an object has no properties but those that are listed."""
    if isinstance(schemas, list):
        return [closed(each) for each in schemas]
    if not isinstance(schemas, dict):
        return schemas
    found = {name: closed(each) for name, each in schemas.items()}
    if isinstance(schemas.get("properties"), dict) and schemas.get("type") == "object":
        found.setdefault("additionalProperties", False)
    return found


def parsed(value: str, kind: str | None) -> Any:
    """A query parameter's value, None where it is no such thing."""
    if kind == "integer":
        return int(value) if re.fullmatch(r"-?\d+", value) else None
    if kind == "boolean":
        return {"true": True, "false": False}.get(value)
    return value
