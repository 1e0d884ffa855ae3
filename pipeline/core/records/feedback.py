"""Feedback of people on anomalies: that they are usual, or expected for a while."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, get_args

from laggard.pipeline.core.records import checks
from laggard.pipeline.core.records.declared import Shape, number, shape, text, texts
from laggard.pipeline.core.records.errors import RecordError, shown
from laggard.pipeline.core.records.frame import UNNUMBERED, KeyedBy
from laggard.pipeline.core.records.limits import MAX_CASES, MAX_NAME, MAX_NOTE, MAX_RESOURCE, MAX_RESOURCES
from laggard.pipeline.core.records.strict_json import json_number

if TYPE_CHECKING:
    from collections.abc import Mapping

Says = Literal["usual", "expected", "withdrawn"]
"""The deviation is no anomaly; it is expected until a time; or earlier feedback is withdrawn."""

SAYS: Final[tuple[Says, ...]] = get_args(Says)
KEYS: Final[tuple[KeyedBy, ...]] = get_args(KeyedBy)


class Case(NamedTuple):
    """The subject of feedback. An empty field means all.

    Attributes:
        name: the row's name.
        resources: the resources that it uses: `cpu`, `disk`, `memory`, `network`.
        feature: the counter that shows it.
        excess: the distance of its value from the baseline, in its base unit; NaN for any.

    """

    name: str = ""
    resources: tuple[str, ...] = ()
    feature: str = ""
    excess: float = math.nan


CASE: Final[Shape[Case]] = shape(
    "case",
    "The subject of the feedback. An empty field means all.",
    Case,
    name=text("The name of the row.", MAX_NAME),
    resources=texts("The resources that it uses: `cpu`, `disk`, `memory`, `network`.", MAX_RESOURCES, MAX_RESOURCE),
    feature=text("The counter that shows it.", MAX_NAME),
    excess=number("The distance of its value from the baseline, in its base unit; null for any.", minimum=0),
)


@dataclass(frozen=True, slots=True)
class Feedback:
    """A person's feedback on anomalies of one key. It is on the topic of the key's frames, in one order with them.

    Attributes:
        keyed_by: the kind of `key`.
        key: the host, application, pool or service.
        ts: its time, seconds since the Unix epoch.
        id: its id; `withdrawn` has the id of the feedback that it withdraws.
        says: see `Says`.
        cases: its subjects; all anomalies of the key if there is none.
        until_ts: the end of the time in which it is expected, seconds since the Unix epoch; NaN for others.
        incident: the id of its incident; empty if there is none.
        note: the reason, for people.
        sequence: see `Frame`.

    """

    keyed_by: KeyedBy
    key: str
    ts: float
    id: str
    says: Says
    cases: tuple[Case, ...] = ()
    until_ts: float = math.nan
    incident: str = ""
    note: str = ""
    sequence: int = UNNUMBERED


def checked_feedback(fields: Mapping[str, Any], place: str) -> Feedback:
    """Return feedback of its fields. A case is an object, or a `Case`.

    Raises:
        RecordError: a field is of the wrong type, or beyond a limit.

    """
    keyed_by: Any = fields.get("keyed_by")
    if keyed_by not in KEYS:
        raise RecordError(place, "keyed_by", " or ".join(map(repr, KEYS)), shown(keyed_by))
    says: Any = fields.get("says")
    if says not in SAYS:
        raise RecordError(place, "says", " or ".join(map(repr, SAYS)), shown(says))
    cases = checks.items(fields.get("cases", ()), "cases", place, MAX_CASES)
    expected = says == "expected"
    until: Any = fields.get("until_ts")
    is_given = until is not None and until == until  # noqa: PLR0124 - NaN is none
    if is_given != expected:
        raise RecordError(place, "until_ts", "a time for what is expected, and none for others", shown(until))
    return Feedback(
        keyed_by=keyed_by,
        key=checks.key(fields.get("key"), "key", place),
        ts=checks.ts(fields.get("ts"), "ts", place),
        id=checks.text(fields.get("id"), "id", place, MAX_NAME, shortest=1),
        says=says,
        cases=tuple(_case(each, f"cases[{number}]", place) for number, each in enumerate(cases)),
        until_ts=checks.ts(until, "until_ts", place) if expected else math.nan,
        incident=checks.text(fields.get("incident", ""), "incident", place, MAX_NAME),
        note=checks.text(fields.get("note", ""), "note", place, MAX_NOTE),
        sequence=checks.sequence(fields.get("sequence"), "sequence", place),
    )


def plain_feedback(feedback: Feedback) -> dict[str, Any]:
    """Return the fields as plain data that `checked_feedback` reads; NaN is None."""
    return {
        "keyed_by": feedback.keyed_by,
        "key": feedback.key,
        "ts": feedback.ts,
        "id": feedback.id,
        "says": feedback.says,
        "cases": list(map(CASE.write, feedback.cases)),
        "until_ts": json_number(feedback.until_ts),
        "incident": feedback.incident,
        "note": feedback.note,
        "sequence": feedback.sequence,
    }


def _case(value: Any, field: str, place: str) -> Case:
    if isinstance(value, Case):
        value = value._asdict()
    if not isinstance(value, dict) or value.keys() - set(Case._fields):
        raise RecordError(place, field, f"an object with the fields {', '.join(Case._fields)}", shown(value))
    resources = checks.items(value.get("resources", ()), f"{field}.resources", place, MAX_RESOURCES)
    excess: Any = value.get("excess")
    known = excess is not None and excess == excess  # noqa: PLR0124 - NaN is none
    return Case(
        name=checks.text(value.get("name", ""), f"{field}.name", place, MAX_NAME),
        resources=checks.texts(resources, f"{field}.resources", place, MAX_RESOURCE, shortest=1),
        feature=checks.text(value.get("feature", ""), f"{field}.feature", place, MAX_NAME),
        excess=checks.amount(excess, f"{field}.excess", place) if known else math.nan,
    )
