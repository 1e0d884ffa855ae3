from __future__ import annotations

import contextlib
import math
import re
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from laggard.pipeline.investigator.app import ENDPOINTS
from laggard.pipeline.investigator.openapi import PREFIX, REFUSALS, document
from laggard.pipeline.web.errors import RequestError
from tests.pipeline.investigator.serving import served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


DOCUMENT = document(ENDPOINTS)


def values_of(found: Any, name: str) -> Iterator[Any]:
    """The values of a key, wherever it is."""
    if isinstance(found, dict):
        for key, value in found.items():
            if key == name:
                yield value
            yield from values_of(value, name)
    elif isinstance(found, list):
        for value in found:
            yield from values_of(value, name)


def operations() -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


@pytest.mark.slow
def test_it_is_openapi() -> None:
    import schemathesis  # noqa: PLC0415 - it takes a second, and no other test here needs it

    assert DOCUMENT["openapi"].startswith("3.1.")
    schemathesis.openapi.from_dict(DOCUMENT).validate()
    for name, schema in DOCUMENT["components"]["schemas"].items():
        assert re.fullmatch(r"[A-Z][A-Za-z]+", name), f"{name}: two schemas are called alike"
        Draft202012Validator.check_schema(schema)


def test_every_reference_leads_somewhere_and_every_answer_is_an_object_that_says_what_it_holds() -> None:
    references = set(values_of(DOCUMENT, "$ref"))
    components = {f"#/components/schemas/{name}" for name in DOCUMENT["components"]["schemas"]}
    assert references == components, "and nothing is there that nobody needs"
    for name, schema in DOCUMENT["components"]["schemas"].items():
        assert schema["type"] == "object", name
        assert "description" in schema or name == "Refusal", name
        assert set(schema.get("required", ())) <= set(schema.get("properties", {})), name


def test_it_describes_every_endpoint() -> None:
    told = dict(operations())
    assert set(told) == {f"{each.method} {PREFIX}{each.path}" for each in ENDPOINTS}
    names = [operation["operationId"] for operation in told.values()]
    assert len(set(names)) == len(names)
    for which, operation in told.items():
        assert operation["summary"].endswith("."), which
        statuses = set(map(int, operation["responses"]))
        assert statuses >= set(REFUSALS), which
        assert statuses & {200, 201}, which
        assert ("requestBody" in operation) == which.startswith("POST"), which


def test_every_parameter_can_be_asked() -> None:
    for endpoint in ENDPOINTS:
        told = DOCUMENT["paths"][PREFIX + endpoint.path][endpoint.method.lower()]["parameters"]
        fields = {field.encode_name: field for field in msgspec.structs.fields(endpoint.question)}
        assert {each["name"] for each in told} == set(fields)
        for each in told:
            assert each["in"] == "query"
            assert each["required"] == fields[each["name"]].required
            for pattern in values_of(each["schema"], "type"):
                assert pattern in {"string", "number", "integer", "boolean", "null"}, f"{endpoint.path} {each['name']}"


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_a_number_is_a_finite_one(value: str) -> None:
    for endpoint in ENDPOINTS:
        fields = msgspec.structs.fields(endpoint.question)
        required = {each.encode_name: "1" for each in fields if each.required}
        for field in fields:
            with contextlib.suppress(RequestError):
                asked = endpoint.asked(list((required | {field.encode_name: value}).items()))
                numbers = [each for each in msgspec.structs.astuple(asked) if isinstance(each, float)]
                assert all(map(math.isfinite, numbers)), (endpoint.method, endpoint.path, field.encode_name)


def test_it_is_served_and_a_wrong_method_is_told_which_ones_are_right(tmp_path: Path) -> None:
    with served(tmp_path / "bus.db") as page:
        answer = page.client.get(f"{PREFIX}/openapi.json")
        assert answer.headers["content-type"] == "application/json"
        assert answer.json() == DOCUMENT
        for method, path, allowed in [
            ("DELETE", "/marks", {"GET", "HEAD", "POST"}),
            ("POST", "/moment", {"GET", "HEAD"}),
            ("GET", "/session", {"POST"}),
        ]:
            answer = page.client.request(method, PREFIX + path)
            assert answer.status_code == 405
            assert set(re.split(", ?", answer.headers["allow"])) == allowed
            assert answer.json()["expected"].startswith("method ")
