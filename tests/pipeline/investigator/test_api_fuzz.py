"""Every end point, asked by schemathesis for what its schema allows and for what it does not, of a world full of data.

Answers have to be what the document says, with a status and a type that it names; nothing may be a server's error.
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance

from laggard.pipeline.investigator import guard
from laggard.pipeline.investigator.app import ENDPOINTS
from laggard.pipeline.investigator.openapi import PREFIX, document
from tests.browser.world import served_world, shared_world

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.pipeline.investigator.serving import Served

FEWER: Final = 5
"""Requests for each end point are this many times fewer than the examples of other properties."""

NAMING: Final[dict[str, str]] = {
    **dict.fromkeys(("cluster", "moment", "marks", "incidents", "applications", "pools", "requests"), ""),
    **dict.fromkeys(("incident/diagnoses", "diagnosis"), "id"),
    "applications/models": "application",
    **dict.fromkeys(("requests/list", "requests/plane"), "service"),
}
"""End points that name what others are asked for, and what they are asked for themselves."""

MEANT: Final = {"hosts": "host", "ts": "at", "opened_ts": "from", "until_ts": "to"}
"""What parameters are called in answers, where that is otherwise."""

MOST_KNOWN: Final = 6

DRAWS: Final = 20
"""So many times at most are end points asked that often, until something that there is was asked for."""

HOSTILE: Final = (
    *("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "\u202egnp.exe", "\x00", "../../etc/passwd", "%"),
    *("' OR 1=1 --", "{{7*7}}", "$(id)", "\ud7ff\uffff", "a" * 600),
)

RARE: Final = ("/diagnosis",)
"""End points whose parameters have to fit each other in such a way that chance does not find it."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # the world may have to be recorded first

# What a schema cannot say is refused, too: an end before its beginning, a moment that is in the future.
EXCLUDED: Final[list[Any]] = [positive_data_acceptance]

OPERATIONS: Final = [f"{each.method} {PREFIX}{each.path}" for each in ENDPOINTS]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The world on a bus of the test's own, for marks and wishes are written to it."""
    own = tmp_path_factory.mktemp("fuzz") / "bus.db"
    shutil.copy(shared_world(tmp_path_factory), own)
    with mock.patch.object(guard, "REQUESTS_AT_ONCE", 1e9), served_world(own) as page:
        yield page


@pytest.fixture(scope="module")
def operations(page: Served) -> dict[str, Any]:
    """The document's operations by name; what they name are things that there are."""
    known: dict[str, list[Any]] = defaultdict(list)
    for path, name in NAMING.items():
        for value in known[name] if name else [""]:
            answer = page.client.get(f"{PREFIX}/{path}", params={name: value} if name else {})
            named: dict[str, list[Any]] = defaultdict(list)
            _collect(answer.json(), "", named)
            for key, found in named.items():
                known[key] = [*known[key], *(each for each in found if each not in known[key])]
    known["with"] = known["at"]
    told = document(ENDPOINTS)
    for operation in told["paths"].values():
        for parameter in operation.get("get", {}).get("parameters", ()):
            if values := known.get(parameter["name"]):
                parameter["schema"] = {"enum": values}
    loaded: list[Any] = list(schemathesis.openapi.from_dict(told).get_all_operations())
    return {each.ok().label: each.ok() for each in loaded}


def _collect(found: Any, name: str, known: dict[str, list[Any]]) -> None:
    """The values of each name in an answer."""
    if isinstance(found, dict):
        for key, value in found.items():
            _collect(value, MEANT.get(str(key), str(key)), known)
    elif isinstance(found, list):
        for value in found:
            _collect(value, name, known)
    elif isinstance(found, str | int | float) and found not in known[name] and len(known[name]) < MOST_KNOWN:
        known[name].append(found)


def ask(page: Served, operation: Any, draw: int) -> set[int]:
    """Ask so often, for what this draw gives. Returns the statuses of the answers."""
    statuses = set()
    usual = settings.default
    assert usual is not None

    @seed(draw)
    @given(case=operation.as_strategy())
    @settings(
        max_examples=usual.max_examples // FEWER,
        deadline=None,
        derandomize=False,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def one(case: schemathesis.Case) -> None:
        answer = case.call(base_url=page.url, timeout=120)  # a busy machine is no fault of the answer
        statuses.add(answer.status_code)
        case.validate_response(answer, excluded_checks=EXCLUDED)

    one()
    return statuses


@pytest.mark.parametrize("operation", OPERATIONS)
def test_answers_are_what_the_document_says(page: Served, operations: dict[str, Any], operation: str) -> None:
    statuses = ask(page, operations[operation], 0)
    if operation.startswith("GET") and not operation.endswith(RARE):
        for draw in range(1, DRAWS):
            statuses |= set() if 200 in statuses else ask(page, operations[operation], draw)
        assert 200 in statuses, "nothing that there is was asked for"


@pytest.mark.parametrize("endpoint", [each for each in ENDPOINTS if each.method == "GET"], ids=lambda each: each.path)
def test_hostile_text_is_only_text(page: Served, endpoint: Any) -> None:
    names = [
        each["name"]
        for each in document([endpoint])["paths"][PREFIX + endpoint.path]["get"]["parameters"]
        if each["schema"].get("type") == "string" and "enum" not in each["schema"]
    ]
    for text in HOSTILE:
        answer = page.client.get(PREFIX + endpoint.path, params=dict.fromkeys(names, text))
        assert answer.status_code in {200, 400, 404}, answer.text
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-content-type-options"] == "nosniff"
