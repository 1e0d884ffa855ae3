"""What an operator on frames answers: rows by score and, inside a row, features by score, each with its evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Basis = Literal["itself", "name", "starts", "all"]


@dataclass(frozen=True, slots=True)
class FeatureScore:
    """One feature of one row: what it is, what it usually is, and how much that says.

    Attributes:
        feature: its name, with its base unit.
        value: the frame's, in the base unit.
        mean: what was usual before, NaN where nothing was known.
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
            own ("name"); where that has none, how rows of any name began ("starts"), or all rows ("all").
        waits: whether what is most unusual about it is that it waits for others: it suffers, rather than causes.
        gone_s: for how long it has not been there any more, in seconds; 0 for a row of the frame. What is told of such
            a row is what it was when it was last out of the ordinary.

    """

    row: str
    name: str
    score: float
    features: tuple[FeatureScore, ...]
    age_s: float
    basis: Basis = "itself"
    waits: bool = False
    gone_s: float = 0.0


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
