"""An endpoint of the API, declared once: its query, its answer and its handler.

Queries, bodies and answers are msgspec structs: input is checked against them, and the OpenAPI document is derived from
them. A number that may be missing has the type `Number`: NaN and infinity, which JSON lacks, are written as null.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import msgspec

from laggard.pipeline.core.records.limits import MAX_TS
from laggard.pipeline.web.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


Number = Annotated[float | None, msgspec.Meta(description="null where it is not known")]
Seconds = Annotated[float, msgspec.Meta(description="seconds since the Unix epoch")]
Sentence = Annotated[str, msgspec.Meta(description="a sentence for people; its wording may change at any time")]
Young = Annotated[bool, msgspec.Meta(description="whether too little has been learned for reliable results")]

HostName = Annotated[str, msgspec.Meta(description="the name of the host")]
Tick = Annotated[float, msgspec.Meta(description="the time between two frames, in seconds")]
Scope = Annotated[str, msgspec.Meta(description="the kind of the rows: `process`, `host`, ...; empty if unknown")]
RowId = Annotated[
    str, msgspec.Meta(description="the id of the row; of a process its name, pid and start: `nginx[4711@99]`")
]
RowName = Annotated[str, msgspec.Meta(description="the name of the row: `nginx`")]
Counter = Annotated[str, msgspec.Meta(description="the name of the counter, with its base unit: `memory_rss_bytes`")]
"""The parts of frames in answers, each described once for all of them."""

Time = Annotated[float, msgspec.Meta(ge=0.0, le=MAX_TS, description="seconds since the Unix epoch")]
"""A time in a query: a number, in the years that a clock can show."""

MAX_TEXT = 4096
"""The most characters of a parameter."""

Text = Annotated[str, msgspec.Meta(max_length=MAX_TEXT)]

WantedHost = Annotated[
    Text, msgspec.Meta(description="the name of the host; empty for the host of this page, or the only recorded one")
]
OnlyHost = Annotated[Text, msgspec.Meta(description="only those of this host; empty for all")]


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of a query; each has a default or is required."""


class Nothing(Question, frozen=True):
    """A query without parameters."""


class Answer(msgspec.Struct, frozen=True):
    """The answer of an endpoint."""


Q = TypeVar("Q", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An endpoint of the API.

    Attributes:
        path: the path below `/api/v1`: `/moment`. It has no parameters, since names of hosts and pools may contain
            anything.
        summary: a description of the answer, in one line.
        answer: the type of the answer.
        handle: the handler; called in a thread with the reading, the query and the body, if there is one. Raises
            `RequestError` for a query that cannot be answered, and the errors of the bus.
        question: the type of the query.
        body: the type of the body; None for a GET.
        status: the HTTP status of an answer.
        asks_caller: whether `handle` also gets the `Caller`, as `caller`.

    """

    path: str
    summary: str
    answer: type[Answer]
    handle: Callable[..., Answer]
    question: type[Question] = Nothing
    body: type[msgspec.Struct] | None = None
    status: int = 200
    asks_caller: bool = False

    @property
    def method(self) -> Literal["GET", "POST"]:
        """GET for queries, POST for changes. A reader may send a POST only to open or end a session."""
        return "GET" if self.body is None else "POST"

    def asked(self, parameters: Sequence[tuple[str, str]]) -> Question:
        """Convert the parameters of a query. Raises `RequestError` that names the parameter and the expected value."""
        given: dict[str, str] = {}
        for name, value in parameters:
            if name in given:
                raise RequestError(400, f"parameter {name[:100]!r} is there twice", "each parameter once")
            given[name] = value
        question = _converted(given, self.question, "parameter")
        for field in msgspec.structs.fields(self.question):
            value = getattr(question, field.name)
            if isinstance(value, float) and not math.isfinite(value):
                raise RequestError(400, f"parameter {field.encode_name!r} is {value!r}", "a number")
        return question


def read_body(body: bytes, kind: type[Q]) -> Q:
    """Convert a JSON body. Raises `RequestError` that names the field and the expected value."""
    try:
        fields = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        raise RequestError(400, "the body is not JSON", _fields(kind)) from None
    if not isinstance(fields, dict):
        raise RequestError(400, "the body is not an object", _fields(kind))
    return _converted(fields, kind, "field")


def _converted(given: dict[str, Any], kind: type[Q], what: str) -> Q:
    known = {field.encode_name for field in msgspec.structs.fields(kind)}
    if unknown := sorted(given.keys() - known):
        raise RequestError(400, f"unknown {what} {unknown[0][:100]!a}", _fields(kind))
    try:
        # Parameters are text, so conversion must also accept numbers and flags as text.
        return msgspec.convert(given, kind, strict=what != "parameter")
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at ")
        named = place.strip("`").removeprefix("$.")
        raise RequestError(400, f"{what} {named!r} is wrong" if named else f"a {what} is missing", reason) from None


def _fields(kind: type[msgspec.Struct]) -> str:
    names = [field.encode_name + ("" if field.required else "?") for field in msgspec.structs.fields(kind)]
    return ", ".join(names) if names else "none"
