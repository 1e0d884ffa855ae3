"""The stage of saturation: reports the resources that `operators.saturation` detects, with their top consumers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from laggard.operators import contract
from laggard.operators.saturation.results import FORECAST
from laggard.pipeline.alarms.anomalies import blamed
from laggard.pipeline.methods.saturation.text import Users, blamed_holder, blamed_user, saturation_sentence
from laggard.pipeline.scoring.narrator import Narrator
from laggard.pipeline.scoring.wired import Wired

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laggard.operators.contract import Open
    from laggard.operators.ranking import Ranking
    from laggard.operators.saturation.results import Reading, Resource
    from laggard.pipeline.alarms.tolerance import Tolerance
    from laggard.pipeline.core.engine.states import States
    from laggard.pipeline.core.records import Frame
    from laggard.pipeline.core.records.outputs import Blame

HOST, PROCESS, LIMIT = "host", "process", "limit"


class Scores(contract.Scores, Protocol):
    """The scores of the operator for a frame of a host or its limits."""

    @property
    def open(self) -> Mapping[str, Open]:
        """The saturated resources and the forecasts."""

    @property
    def readings(self) -> Mapping[str, Reading]:
        """The reading of each resource."""

    @property
    def resources(self) -> Mapping[str, Resource]:
        """The state of each resource."""


@dataclass(frozen=True, slots=True)
class SaturationStage(Wired):
    """The wired operators: one for the host, one for its limits, one for its processes."""

    def narrator(self, states: States[Any]) -> Narrator:
        """Return the narrator for hosts with these states."""
        return SaturationNarrator(self, states)


class SaturationNarrator(Narrator):
    """Describes the scarce resources of hosts, and their top consumers by the newest frame of the processes."""

    def __init__(self, wired: Wired, states: States[Any]) -> None:
        super().__init__(wired)
        self._states = states

    def feedback_on(self, tolerance: Tolerance, frame: Frame) -> Tolerance:  # noqa: ARG002 - other narrators blame rows
        """Return all feedback: the blamed program is no row of a frame of the host or of limits."""
        return tolerance

    def blame(self, scores: contract.Scores, found: Ranking, frame: Frame) -> Blame | None:
        """Return the culprit, see `Narrator`."""
        reading, _ = _about(scores, found)
        if frame.scope == LIMIT:
            return blamed_holder(reading, self._users(frame.key))
        users = self._users(frame.key)
        user = None if users is None else blamed_user(reading, users)
        return blamed(found, HOST) if user is None else user

    def finding_sentence(self, scores: contract.Scores, found: Ranking, frame: Frame, own: str) -> str:
        """Return the sentence on an anomaly, see `Narrator`."""
        reading, resource = _about(scores, found)
        lasted_s = frame.ts - cast("Scores", scores).open[own].onset_ts
        return saturation_sentence(
            reading, resource, lasted_s, self._users(frame.key), forecast=own.startswith(FORECAST)
        )

    def beside(self, found: Ranking, frame: Frame, before: Frame | None) -> str:  # noqa: ARG002 - see below
        """Return no text: the sentence on the anomaly names the top consumers."""
        return ""

    def _users(self, key: str) -> Users | None:
        """Return the consumers on a host by the newest frame of its processes; None without one."""
        keyed = self._states.get(key)
        return None if keyed is None else cast("Users | None", keyed.streams[PROCESS].scores())


def _about(scores: contract.Scores, ranking: Ranking) -> tuple[Reading, Resource]:
    """Return the reading and the state of the resource of a ranking."""
    of_host, id_ = cast("Scores", scores), ranking.rows[0].name.removeprefix(FORECAST)
    return of_host.readings[id_], of_host.resources[id_]
