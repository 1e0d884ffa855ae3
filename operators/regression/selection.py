"""The choice of a model's metrics: as published, for prediction; and for diagnosis, which must name the resource.

Algorithm 2 chooses the metrics that predict best. With 10 samples and thousands of metrics many of these are there by
chance, and most others follow the load. A bottleneck shows in metrics that contention moves. `Diagnosis` uses the
physical meaning of metrics (`Trait`) and their values before the change. It also uses that a bottleneck shows in many
metrics of one resource of a host, and chance in single ones.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from laggard.operators.regression.climb import LinearClimb
from laggard.operators.regression.correlation import best, correlations

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from laggard.operators.regression.models import Role
    from laggard.operators.regression.traits import Traits


BOTTLENECK_SHARE: Final = 0.8
"""A resource stays the bottleneck if its evidence is at least this share of the greatest."""


class Purpose(NamedTuple):
    """The purpose of a model.

    Attributes:
        weights: the weight of a correlation, by the role of the metric.
        samples_per_term: the number of samples for each further metric ...
        gain: ... and the least gain of R^2 for it.
        physical: whether coefficients must have their physical sign.

    """

    weights: Mapping[Role, float]
    samples_per_term: int
    gain: float
    physical: bool


BOTTLENECK: Final = Purpose({"wait": 1.0, "free": 0.9, "use": 0.8, "": 0.3, "load": 0.15}, 12, 0.02, physical=True)
"""The explanation of a response time: contention matters more than what follows the load."""

WORK: Final = Purpose({"load": 1.0, "use": 0.8, "free": 0.5, "": 0.5, "wait": 0.2}, 5, 0.01, physical=False)
"""The prediction of anything else, such as the throughput, by the work that is done."""

SHIFTED: Final = 4.0
"""A metric that moved by this number of its standard deviations has half of the weight; more if it moved further."""

UNNOTICED: Final = 5.0
"""The least standard deviation, in negligible differences of the metric."""

WITHIN: Final = 5
"""The number of samples since the change from which on a metric must also be correlated among these."""

MEMBERS: Final = 12
"""The evidence of a resource is the mean strength of this number of its metrics; missing ones count as 0."""

PROFILE: Final = 8
"""The number of strongest metrics of a resource whose mean course is compared with the others."""

PAGING: Final = 0.8
"""If memory is short, the disk is busy with pages. So memory comes first if its evidence is at least this share of the
disk's on the same host."""

SUPPORT: Final = 3
"""The number of metrics of a row in which a bottleneck shows; chance shows in one."""

NEAR: Final = 0.8
"""Strengths of at least this share of the greatest count as equal."""

SHOWN: Final = 0.5
"""A metric below this share of the greatest strength does not show the bottleneck."""

PREFERENCE: Final = 0.3
"""The weight of strength against R^2 for the first metric of a model."""

ALIKE: Final = 0.95
"""The correlation from which on two metrics are equivalent."""


class Choice(NamedTuple):
    """The chosen metrics.

    Attributes:
        columns: their columns, in the order of choice.
        r2: the cross-validated R^2 of the linear model with them.

    """

    columns: list[int]
    r2: float


def climb(
    values: NDArray[np.float64],
    target: NDArray[np.float64],
    columns: NDArray[np.intp],
    *,
    minimum_gain: float,
    most: int,
) -> Choice:
    """Algorithm 2 for linear models.

    Args:
        values: shape (samples, metrics).
        target: shape (samples,).
        columns: the candidates; the first of equally good ones is chosen.
        minimum_gain: the least gain of R^2 for a further metric.
        most: the most metrics.

    """
    chosen: list[int] = []
    r2 = 0.0
    if not len(columns):
        return Choice(chosen, r2)
    ahead = LinearClimb(values[:, columns], target)
    while len(chosen) < most:
        gains, _ = ahead.gains()
        at = int(np.argmax(gains))
        if not gains[at] - r2 > minimum_gain:
            break
        r2 = float(gains[at])
        chosen.append(int(columns[at]))
        ahead.add(at)
    return Choice(chosen, r2)


class Diagnosis:
    """The bottleneck of a response time, by the metrics that contention moves.

    Parameters:
        values: the values from before the change and since, shape (samples, metrics).
        target: the response time, shape (samples,).
        since: the number of samples since the change.
        before: the values before the change, shape (samples, metrics): a longer past than that in `values`.
        traits: the traits of the metrics.
        banned: the places of metrics that must not be chosen.
        candidates: the number of candidates.
        purpose: the purpose of the model.
        kept: the host and resource of the model before. They stay the bottleneck unless the evidence of another one is
            clearly greater.
        short: how short each resource of a host is, see `shortages`; None while the response time is not long.

    Attributes:
        columns: the candidates, the best correlated first.
        r: the correlation coefficients of all metrics.
        strength: the strength of each candidate, from 0 to 1.
        evidence: the evidence of each resource of a host, by its number, from 0 to 1.

    """

    def __init__(
        self,
        values: NDArray[np.float64],
        target: NDArray[np.float64],
        since: int,
        *,
        before: NDArray[np.float64],
        traits: Traits,
        banned: NDArray[np.intp],
        candidates: int,
        purpose: Purpose,
        kept: tuple[str, str] | None = None,
        short: NDArray[np.float64] | None = None,
    ) -> None:
        weights = traits.weights(purpose.weights)
        self._purpose = purpose
        self._kept = kept
        self._values, self._target, self._since, self._traits = values, target, since, traits
        self._ids = traits.ids
        self.r = correlations(values, target)
        self.r[banned] = np.nan
        self.r[traits.barred | (traits.levels & ~_explanatory(traits, short))] = np.nan
        self.columns = best(self.r * weights, candidates)
        r, signs = self.r[self.columns], traits.signs[self.columns]
        fits = (signs == 0) | (np.sign(r) == signs) if purpose.physical else np.ones(len(r), np.bool_)
        self.strength = np.abs(r) * weights[self.columns] * fits
        if len(before) >= WITHIN and since < len(target):
            self.strength *= self._shifted(before)
        shifted = self.strength.copy()
        if WITHIN <= since < len(target):
            within = np.nan_to_num(correlations(values[-since:][:, self.columns], target[-since:])) * np.sign(r)
            self.strength *= 0.5 + 0.5 * np.clip(within, 0.0, 1.0)
        self._groups: dict[int, list[int]] = defaultdict(list)
        for at, group in enumerate(traits.groups[self.columns].tolist()):
            if group >= 0 and self.strength[at] > 0.0:
                self._groups[group].append(at)
        self.evidence = {group: _evidence(self.strength[members]) for group, members in self._groups.items()}
        self._shift = {group: _evidence(shifted[members]) for group, members in self._groups.items()}
        if short is not None:
            self._agree(short)

    def _agree(self, short: NDArray[np.float64]) -> None:
        """Weigh the evidence of each resource by its shortage, and drop the resources that are not short."""
        for group in list(self.evidence):
            if short[group] == 0.0:
                del self.evidence[group]
            elif short[group] > 0.0:
                self.evidence[group] *= float(short[group])

    def _shifted(self, before: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return how clearly each candidate has left its baseline, from 0 to 1."""
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            past = before[:, self.columns]
            mean, spread = np.nanmean(past, axis=0), np.nanstd(past, axis=0)
            now = self._values[-self._since :][:, self.columns].mean(axis=0)
            least = UNNOTICED * self._traits.resolutions[self.columns]
            spread = np.maximum(spread, 1e-6 * np.abs(mean) + np.finfo(float).tiny) + least
            shift = np.abs(now - mean) / spread
            share = 1.0 / (1.0 + SHIFTED / shift)
        return np.asarray(np.nan_to_num(share, nan=0.0))

    @property
    def bottleneck(self) -> int | None:
        """The number of the resource of a host with the most evidence; None without any."""
        if not self.evidence:
            return None
        group = min(self.evidence, key=lambda each: (-self.evidence[each], self._traits.resources[each]))
        for other, evidence in self.evidence.items():
            if self._traits.resources[other] == self._kept and evidence > BOTTLENECK_SHARE * self.evidence[group]:
                return other
        host, resource = self._traits.resources[group]
        if resource == "disk" and self._purpose.physical:
            for other, shift in self._shift.items():
                is_memory = other in self.evidence and self._traits.resources[other] == (host, "memory")
                if is_memory and shift > PAGING * self._shift[group]:
                    return other
        return group

    @property
    def members(self) -> NDArray[np.intp]:
        """The metrics that show the bottleneck, the strongest first."""
        columns, strength = self._members()
        return columns[np.argsort(-strength, kind="stable")]

    def _members(self) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Return the metrics that show the bottleneck, and their strengths."""
        group = self.bottleneck
        if group is None:
            return np.empty(0, np.intp), np.empty(0)
        members = np.array(self._groups[group])
        strength = self.strength[members] * self._agreement(members) * self._support(members)
        near = strength > SHOWN * strength.max()
        return self.columns[members[near]], strength[near]

    def choose(self, *, settled: bool) -> Choice:
        """Choose the metrics of the bottleneck that predict the response time best.

        Args:
            settled: whether there are enough samples since the change to cross-validate; otherwise the strongest metric
                is chosen.

        """
        columns, strength = self._members()
        if not len(columns):
            return Choice([], 0.0)
        if not settled:
            at = int(columns[np.argmax(strength)])
            return Choice([at], float(self.r[at] ** 2))
        signs = self._traits.signs[columns] if self._purpose.physical else np.zeros(len(columns))
        ahead = LinearClimb(self._values[:, columns], self._target)
        chosen: list[int] = []
        r2 = 0.0
        for _ in range(max(len(self._target) // self._purpose.samples_per_term, 1)):
            gains, sign = ahead.gains()
            gains[(signs != 0) & (sign != signs)] = -np.inf
            at = int(np.argmax(gains if chosen else gains + PREFERENCE * strength))
            if not np.isfinite(gains[at]) or (chosen and gains[at] - r2 < self._purpose.gain):
                break
            r2 = float(gains[at])
            chosen.append(int(columns[at]))
            ahead.add(at)
        return Choice(chosen, r2)

    def _support(self, members: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the number of agreeing metrics of a resource in the row of each, as a share of the expected number."""
        strong = self.strength[members] >= NEAR * self.strength[members].max()
        rows = [self._ids[at].partition(":")[0] for at in self.columns[members]]
        counts = Counter(row for row, is_strong in zip(rows, strong, strict=True) if is_strong)
        return np.array([0.6 + 0.4 * min(counts[row] / SUPPORT, 1.0) for row in rows])

    def _agreement(self, members: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return how well each metric of a resource agrees with its strongest ones, from 0 to 1."""
        signs = np.sign(self.r[self.columns[members]])
        courses = _standardised(self._values[:, self.columns[members]]) * signs
        leaders = np.argsort(-self.strength[members], kind="stable")[:PROFILE]
        profile = courses[:, leaders].mean(axis=1)
        size = float(np.sqrt(profile @ profile / len(profile)))
        return np.asarray(np.clip(courses.T @ profile / len(profile) / max(size, 1e-12), 0.0, 1.0))


def family(values: NDArray[np.float64], column: int, others: NDArray[np.intp]) -> list[int]:
    """Return the metrics that are equivalent to one, the most similar first."""
    r = np.abs(correlations(values[:, others], values[:, column]))
    r[others == column] = np.nan
    order = np.argsort(-np.nan_to_num(r), kind="stable")
    return [int(others[at]) for at in order if r[at] >= ALIKE]


def _explanatory(traits: Traits, short: NDArray[np.float64] | None) -> NDArray[np.bool_]:
    """Return whether each metric, if it is a level, may explain a long response time: its resource is not plentiful."""
    if short is None:
        return np.zeros(len(traits.groups), np.bool_)
    of = np.append(short, 0.0)[traits.groups]  # 0 for those of no resource
    return np.asarray((traits.signs != 0) & ~(of == 0.0))


def _evidence(strength: NDArray[np.float64]) -> float:
    return float(np.sort(strength)[::-1][:MEMBERS].sum()) / MEMBERS


def _standardised(values: NDArray[np.float64]) -> NDArray[np.float64]:
    centred = values - values.mean(axis=0)
    return np.asarray(centred / np.maximum(centred.std(axis=0), np.finfo(float).tiny))
