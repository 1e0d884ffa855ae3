"""Feedback as it is published once an operator has accepted it."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

from laggard.pipeline.core.records.declared import KEYED, Declared, choice, many, number, text, time
from laggard.pipeline.core.records.feedback import CASE, Case, Feedback, Says, checked_feedback
from laggard.pipeline.core.records.fields import Fields
from laggard.pipeline.core.records.frame import UNNUMBERED, KeyedBy
from laggard.pipeline.core.records.members import LIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedbackOutput(Declared):
    """A person's feedback on anomalies, once an operator has accepted it. From then on it holds for 30 days at most."""

    kind: ClassVar[str] = "feedback"

    operator: Annotated[str, text("The operator that accepted it: `gaussian`.")]
    keyed_by: Annotated[KeyedBy, KEYED]
    key: str
    ts: Annotated[float, time("The time of the feedback, seconds since the Unix epoch.")]
    id: Annotated[str, text("The id of the feedback.", minLength=1)]
    says: Annotated[
        Says,
        choice(
            "`usual`: it is no anomaly. `expected`: it is none until a time. `withdrawn`: the feedback with this id is "
            "no longer valid.",
            Says,
        ),
    ]
    cases: Annotated[tuple[Case, ...], many(CASE, "The anomalies that it is about; all of the key if there is none.")]
    until_ts: Annotated[
        float, number("The end of an expected deviation, seconds since the Unix epoch; otherwise null.", minimum=0)
    ]
    incident: Annotated[str, text("The id of its incident; empty without one.")]
    note: Annotated[str, text("The reason, for people.")]
    live: Annotated[bool, LIVE]

    @classmethod
    def of(cls, feedback: Feedback, operator: str, *, live: bool) -> Self:
        """Return the record of feedback that an operator accepted."""
        fields = {name: getattr(feedback, name) for name in feedback.__slots__ if name != "sequence"}
        return cls(operator=operator, live=live, **fields)

    @classmethod
    def made(cls, found: Fields, **read: Any) -> Self:
        """Return the record of the attributes that were read."""
        operator, live = read.pop("operator"), read.pop("live")
        return cls.of(checked_feedback(read | {"sequence": UNNUMBERED}, found.place), operator, live=live)

    @property
    def feedback(self) -> Feedback:
        """The feedback of the person."""
        return Feedback(
            self.keyed_by, self.key, self.ts, self.id, self.says, self.cases, self.until_ts, self.incident, self.note
        )
