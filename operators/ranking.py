"""What an operator on frames answers: rows by score and, inside a row, features by score, each with its evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Basis = Literal["itself", "name", "starts", "all", "threshold"]

Kind = Literal["spike", "busy", "leak", "stuck", "slower", "left", "younger", "different"]
"""How members of a pool deviate: they did much more for a short while, and are back (`spike`); they do more and go on
doing so (`busy`); they hold more and more (`leak`); they do nothing while others work (`stuck`); they get less done, or
wait longer (`slower`); they left the pool and nobody took their place (`left`); they began later, and differ by that
only (`younger`); or their metrics vary otherwise (`different`)."""


@dataclass(frozen=True, slots=True)
class FeatureScore:
    """One feature of one row: what it is, what it usually is, and how much that says.

    Attributes:
        feature: its name, with its base unit.
        value: the frame's, in the base unit.
        mean: what was usual before, NaN where nothing was known; for a row whose basis is a threshold, that.
        standard_deviation: the usual spread, never negative; NaN where nothing was known.
        score: how unusual, comparable between the features of one row.
        recent: what was judged, a mean of the last few values; None where that is the frame's.

    """

    feature: str
    value: float
    mean: float
    standard_deviation: float
    score: float
    recent: float | None = None

    @property
    def judged(self) -> float:
        """The value that the score is of."""
        return self.value if self.recent is None else self.recent


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of high use, or the dip between two of them.

    Attributes:
        high: whether it is high use.
        begin_ts: seconds since the Unix epoch.
        end_ts: of the one that lasts, the time of the frame.
        mean: of the readings in it, in the unit of what is measured; NaN where there was none.
        dips: how many there were in a stretch that is no longer kept in parts.

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
        score: how unusual; above 1 is more than the false-alarm budget allows.
        features: worst first.
        age_s: how long the row has been learned from, in seconds.
        basis: what it is compared with: its own past ("itself"); that of its name, as far as it has too little of its
            own ("name"); where that has none, how rows of any name began ("starts"), or all rows ("all"); or no past,
            but what the features' `mean` says ("threshold").
        waits: whether what is most unusual about it is that it waits for others: it suffers, rather than causes.
        gone_s: for how long it has not been there any more, in seconds; 0 for a row of the frame. What is told of such
            a row is what it was when it was last out of the ordinary.
        phases: of the event that it is in, where the operator tells events: the first is high use, then dips and high
            use in turn, in the order of time.

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
        ts: the frame's time, seconds since the Unix epoch.
        score: of the whole frame; above 1 is anomalous.
        rows: worst first, perhaps only the worst few.
        age_s: how long the model has been learning, in seconds.
        young: whether it has not yet seen enough to be relied on.

    """

    ts: float
    score: float
    rows: tuple[RowScore, ...]
    age_s: float
    young: bool
