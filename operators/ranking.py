"""Rankings: the rows of a frame by score and, within a row, its features by score, each with its baseline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Basis = Literal["itself", "name", "starts", "all", "threshold"]

Kind = Literal["spike", "busy", "leak", "stuck", "slower", "left", "younger", "different"]
"""How members of a pool deviate. `spike`: they did much more for a short time. `busy`: they do more, and still do.
`leak`: they hold more and more. `stuck`: they do nothing while others work. `slower`: they get less done, or wait
longer. `left`: they left the pool without a successor. `younger`: they began later, and differ only by that.
`different`: their metrics vary in another way."""


@dataclass(frozen=True, slots=True)
class FeatureScore:
    """One feature of one row: its value, its baseline and its score.

    Attributes:
        feature: its name, with its base unit.
        value: its value in the frame, in the base unit.
        mean: the mean of its baseline, NaN without one; the threshold, if that is the basis of the row.
        standard_deviation: the standard deviation of its baseline; NaN without one.
        score: its score, comparable between the features of one row.
        recent: the scored value, a mean of the last few; None if the value itself was scored.

    """

    feature: str
    value: float
    mean: float
    standard_deviation: float
    score: float
    recent: float | None = None

    @property
    def scored(self) -> float:
        """The scored value."""
        return self.value if self.recent is None else self.recent


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of high use, or the dip between two of them.

    Attributes:
        high: whether it is high use.
        begin_ts: seconds since the Unix epoch.
        end_ts: its end, likewise; the time of the frame while it lasts.
        mean: the mean of its readings, in their unit; NaN without readings.
        dips: the number of dips that were merged into it.

    """

    high: bool
    begin_ts: float
    end_ts: float
    mean: float
    dips: int = 0


@dataclass(frozen=True, slots=True)
class RowScore:
    """One row of a ranking.

    Attributes:
        row: its id.
        name: its name.
        score: its score; above 1 is more than the false-alarm budget allows.
        features: its features, worst first.
        age_s: for how long the row has been learned, in seconds.
        basis: what it is compared with: its own past ("itself"), or also that of its name, if its own is too short
            ("name"). Without these it is the starts of rows of any name ("starts"), or all rows ("all"). An operator
            without baselines compares with the threshold in `mean` ("threshold").
        waits: whether its worst feature shows that it waits for others: a symptom, not a cause.
        gone_s: the time since it ended, in seconds; 0 for a row of the frame. The scores of such a row are those from
            when it was last anomalous.
        phases: the phases of its event, if the operator reports events: high use, then dips and high use in turn, in
            the order of time.

    """

    row: str
    name: str
    score: float
    features: tuple[FeatureScore, ...]
    age_s: float
    basis: Basis = "itself"
    waits: bool = False
    gone_s: float = 0.0
    phases: tuple[Phase, ...] = ()


@dataclass(frozen=True, slots=True)
class Ranking:
    """The rows of one frame, worst first.

    Attributes:
        ts: the time of the frame, seconds since the Unix epoch.
        score: the score of the frame; above 1 is anomalous.
        rows: the rows, or only the worst ones, worst first.
        age_s: the age of the model in seconds.
        young: whether the model has not seen enough to be reliable.

    """

    ts: float
    score: float
    rows: tuple[RowScore, ...]
    age_s: float
    young: bool
