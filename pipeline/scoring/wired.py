"""An operator with its input: the topic, the scopes, and the parameters from the settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Unpack

from laggard.pipeline.core.engine.stage import Stage
from laggard.pipeline.core.own import OWN_SCOPES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from laggard.pipeline.core.bus import Partition
    from laggard.pipeline.core.engine.snapshots import Migration
    from laggard.pipeline.core.engine.stage import TaskOptions
    from laggard.pipeline.core.engine.states import States
    from laggard.pipeline.core.topics import Topic
    from laggard.pipeline.scoring.narrator import Narrator
    from laggard.pipeline.scoring.stream import Operator
    from laggard.pipeline.scoring.task import Task

UNLEARNED = OWN_SCOPES | {"limit"}
"""The scopes without a baseline: reports of producers on themselves, and limits, which `saturation` reports."""


@dataclass(frozen=True, slots=True)
class Wired(Stage):
    """An operator with its input and parameters.

    Attributes:
        name: its name in settings, groups, snapshots and outputs: `gaussian`.
        topic: the topic that it reads.
        scopes: the scopes of its frames; each key and scope has an operator of its own.
        make: makes an operator; its arguments override the settings.
        state_version: the version of the form of its state.
        parameters: its parameters, for readers of its outputs; the budget is among them.
        migrations: by an older version of its state, the migration to the next version. The state of a version without
            one is rebuilt from the input.
        answers_marks: whether marks are answered with its ranking.
        of_scope: the parameters that differ by scope; those of all `others` are at the empty scope.
        hidden: the scopes whose scores are not shown to observers.
        others: whether it scores frames of any other scope, too, except for those without a baseline.
        false_alarms_per_day: the budget of a key, shared by the scopes that have frames; 0 for none.
        shares: the relative shares of the scopes; 1 if not given.
        leads: see `Stage`.

    """

    name: str
    topic: Topic
    scopes: tuple[str, ...]
    make: Callable[..., Operator]
    state_version: int
    parameters: Mapping[str, float | str]
    migrations: Mapping[int, Migration] = field(default_factory=dict)
    answers_marks: bool = True
    of_scope: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    hidden: frozenset[str] = frozenset()
    others: bool = False
    false_alarms_per_day: float = 0.0
    shares: Mapping[str, float] = field(default_factory=dict)
    leads: bool = True

    def __post_init__(self) -> None:
        """Add the budget to the parameters."""
        if self.false_alarms_per_day and "false_alarms_per_day" not in self.parameters:
            parameters = {**self.parameters, "false_alarms_per_day": self.false_alarms_per_day}
            object.__setattr__(self, "parameters", parameters)

    def takes(self, scope: str) -> bool:
        """Return whether the operator scores the frames of a scope."""
        return scope in self.scopes or (self.others and scope not in UNLEARNED)

    def make_for(self, scope: str) -> Operator:
        """Make an operator for the frames of a scope."""
        return self.make(**self.of_scope.get(scope if scope in self.scopes else "", {}))

    def narrator(self, states: States[Any]) -> Narrator:  # noqa: ARG002 - some read the state of the key
        """Return the narrator for keys with these states."""
        from laggard.pipeline.scoring.narrator import Narrator  # noqa: PLC0415 - see below

        return Narrator(self)

    def task(self, partition: Partition, **options: Unpack[TaskOptions]) -> Task:
        """Make a task for a partition, without any state."""
        from laggard.pipeline.scoring.task import Task  # noqa: PLC0415 - naming the operators needs no task

        return Task(self, partition, **options)
