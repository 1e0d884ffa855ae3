"""Which metrics a model is built of: as published, for prediction; and for diagnosis, where the resource must be told.

Algorithm 2 takes whatever predicts best. With 10 samples and thousands of metrics much of that is chance, and most of
the rest follows the load. What tells the bottleneck are metrics that contention moves. `Diagnosis` uses what physics
says of metrics (`Trait`), what they were before the change, and that a bottleneck shows in many metrics of one resource
of one host, chance in single ones.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from laggard.operators.regression.climb import LinearClimb
from laggard.operators.regression.correlation import best, correlations
from laggard.operators.regression.models import UNKNOWN, Role, Trait

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray


KEPT: Final = 0.8
"""A resource stays the bottleneck where its evidence is at least so much of the greatest."""


class Purpose(NamedTuple):
    """What a model is for.

    Attributes:
        weights: how much a correlation says, by what moves the metric.
        samples_per_term: a further metric is added for so many samples ...
        gain: ... if it raises R^2 by so much.
        physical: whether coefficients must have the sign that physics gives them.

    """

    weights: Mapping[Role, float]
    samples_per_term: int
    gain: float
    physical: bool


BOTTLENECK: Final = Purpose({"wait": 1.0, "free": 0.9, "use": 0.8, "": 0.3, "load": 0.15}, 12, 0.02, physical=True)
"""To explain a response time: contention tells more than what follows the load."""

WORK: Final = Purpose({"load": 1.0, "use": 0.8, "free": 0.5, "": 0.5, "wait": 0.2}, 5, 0.01, physical=False)
"""To predict anything else, such as the throughput: by the work that is done."""

SHIFTED: Final = 4.0
"""A metric that moved by so many standard deviations of its own counts half, one that moved by far more wholly."""

UNNOTICED: Final = 5.0
"""So many times what nobody would notice is the least that a standard deviation counts for."""

WITHIN: Final = 5
"""From so many samples since the change on, a metric also has to move with the performance among those."""

MEMBERS: Final = 12
"""The evidence of a resource is the mean of so many of its metrics' strengths: of few metrics that is little."""

PROFILE: Final = 8
"""The strongest metrics of a resource, whose mean course is what the others are compared with."""

PAGING: Final = 0.8
"""Where memory is short, the disk is busy with pages: memory comes first if its evidence is at least so much of the
disk's on the same host."""

SUPPORT: Final = 3
"""A bottleneck shows in so many metrics of a row, chance in one."""

NEAR: Final = 0.8
"""Strengths of at least so much of the greatest are as great."""

SHOWN: Final = 0.5
"""A metric that is less strong than so much of the strongest does not show the bottleneck."""

PREFERENCE: Final = 0.3
"""For the first metric of a model strength counts so much of R^2."""

ALIKE: Final = 0.95
"""Metrics whose correlation is at least so much say the same."""


ROLES: Final[tuple[Role, ...]] = ("wait", "free", "use", "load", "")


class Choice(NamedTuple):
    """Metrics that were chosen.

    Attributes:
        columns: which, in the order of choice.
        r2: what the linear model with them predicts, by cross-validation.

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
        columns: the candidates, of which the first is taken where several are as good.
        minimum_gain: by how much more of R^2 a metric is added.
        most: how many at most.

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


class Traits:
    """What physics says of many metrics, as arrays.

    Parameters:
        trait: what it says of one.
        resolution: what nobody would notice, in a metric's unit, by the end of its name.

    Attributes:
        resolutions: shape (metrics,), 0 where nothing is known.
        signs: that a coefficient must have, 0 where both may be, shape (metrics,).
        groups: by metric, the number of the resource of a host that it is about; -1 for none.
        resources: by that number, host and resource.
        ids: the metrics.

    """

    def __init__(self, trait: Callable[[str], Trait] | None, resolution: Mapping[str, float]) -> None:
        self._roles: NDArray[np.intp] = np.empty(0, np.intp)
        self.signs: NDArray[np.int8] = np.empty(0, np.int8)
        self.groups: NDArray[np.intp] = np.empty(0, np.intp)
        self.resources: list[tuple[str, str]] = []
        self.resolutions: NDArray[np.float64] = np.empty(0)
        self._trait = trait
        self._ends = sorted(resolution.items(), key=lambda item: -len(item[0]))
        self._known: dict[str, tuple[int, int, int, float]] = {}
        self._numbers: dict[tuple[str, str], int] = {}
        self.ids: Sequence[str] = ()

    def follow(self, ids: Sequence[str]) -> None:
        """Have the arrays be of these metrics."""
        if ids is self.ids and len(self.signs) == len(ids):
            return
        if len(self._known) > 2 * len(ids) + 1000:
            self._known.clear()
        found = [self._known.get(name) or self._find(name) for name in ids]
        self.ids = ids
        self._roles = np.array([each[0] for each in found], np.intp)
        self.signs = np.array([each[1] for each in found], np.int8)
        self.groups = np.array([each[2] for each in found], np.intp)
        self.resolutions = np.array([each[3] for each in found], np.float64)

    def _resolution(self, name: str) -> float:
        return next((least for end, least in self._ends if name.endswith(end)), 0.0)

    def resource(self, metric: str) -> tuple[str, str] | None:
        """The host and resource that one metric is about; None where that is not known."""
        group = (self._known.get(metric) or self._find(metric))[2]
        return None if group < 0 else self.resources[group]

    def sign(self, metric: str) -> int:
        """The sign that one metric's coefficient must have, 0 where both may be."""
        return (self._known.get(metric) or self._find(metric))[1]

    def weights(self, purpose: Purpose) -> NDArray[np.float64]:
        """How much a correlation with each metric says, shape (metrics,)."""
        return np.array([purpose.weights[role] for role in ROLES])[self._roles]

    def _find(self, name: str) -> tuple[int, int, int, float]:
        trait = UNKNOWN if self._trait is None else self._trait(name)
        group = -1
        if trait.resource:
            place = host_of(name), trait.resource
            group = self._numbers.setdefault(place, len(self.resources))
            if group == len(self.resources):
                self.resources.append(place)
        self._known[name] = found = ROLES.index(trait.role), trait.sign, group, self._resolution(name)
        return found


def host_of(metric: str) -> str:
    """The host that a metric is of: what stands before its row's first part."""
    return metric.partition(":")[0].partition("/")[0]


class Diagnosis:
    """What a response time depends on, told by where contention shows.

    Parameters:
        values: shape (samples, metrics): from before the change and since.
        target: the response time, shape (samples,).
        since: how many of the samples are since the change.
        before: what the metrics were before it, shape (samples, metrics): more of the past than `values` has.
        traits: of the metrics.
        banned: metrics that must not be chosen.
        candidates: how many metrics are looked at.
        purpose: what the model is for.
        kept: the host and resource that the model before named, which stay the bottleneck unless another one's evidence
            is clearly greater.

    Attributes:
        columns: the candidates, the best correlated first.
        r: the coefficients of all metrics.
        strength: of each candidate, from 0 to 1.
        evidence: by number of a resource of a host, from 0 to 1.

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
    ) -> None:
        weights = traits.weights(purpose)
        self._purpose = purpose
        self._kept = kept
        self._values, self._target, self._since, self._traits = values, target, since, traits
        self._ids = traits.ids
        self.r = correlations(values, target)
        self.r[banned] = np.nan
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

    def _shifted(self, before: NDArray[np.float64]) -> NDArray[np.float64]:
        """How clearly each candidate has left what it was, from 0 to 1."""
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
        """The number of the resource of a host with the most evidence; None where there is none at all."""
        if not self.evidence:
            return None
        group = min(self.evidence, key=lambda each: (-self.evidence[each], self._traits.resources[each]))
        for other, evidence in self.evidence.items():
            if self._traits.resources[other] == self._kept and evidence > KEPT * self.evidence[group]:
                return other
        host, resource = self._traits.resources[group]
        if resource == "disk" and self._purpose.physical:
            for other, shift in self._shift.items():
                if self._traits.resources[other] == (host, "memory") and shift > PAGING * self._shift[group]:
                    return other
        return group

    @property
    def members(self) -> NDArray[np.intp]:
        """The bottleneck's metrics that show it, the strongest first."""
        columns, strength = self._members()
        return columns[np.argsort(-strength, kind="stable")]

    def _members(self) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """The bottleneck's metrics that show it, and how strongly."""
        group = self.bottleneck
        if group is None:
            return np.empty(0, np.intp), np.empty(0)
        members = np.array(self._groups[group])
        strength = self.strength[members] * self._agreement(members) * self._support(members)
        near = strength > SHOWN * strength.max()
        return self.columns[members[near]], strength[near]

    def choose(self, *, settled: bool) -> Choice:
        """The metrics of the bottleneck that tell the response time best.

        Args:
            settled: whether there are samples enough since the change to cross-validate; else the strongest metric is
                taken.

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
        """How many of a resource's metrics say the same in each one's row, as a share of those that one expects."""
        strong = self.strength[members] >= NEAR * self.strength[members].max()
        rows = [self._ids[at].partition(":")[0] for at in self.columns[members]]
        counts = Counter(row for row, is_strong in zip(rows, strong, strict=True) if is_strong)
        return np.array([0.6 + 0.4 * min(counts[row] / SUPPORT, 1.0) for row in rows])

    def _agreement(self, members: NDArray[np.intp]) -> NDArray[np.float64]:
        """How much each metric of a resource runs as its strongest ones do, from 0 to 1."""
        signs = np.sign(self.r[self.columns[members]])
        courses = _standardised(self._values[:, self.columns[members]]) * signs
        leaders = np.argsort(-self.strength[members], kind="stable")[:PROFILE]
        profile = courses[:, leaders].mean(axis=1)
        size = float(np.sqrt(profile @ profile / len(profile)))
        return np.asarray(np.clip(courses.T @ profile / len(profile) / max(size, 1e-12), 0.0, 1.0))


def family(values: NDArray[np.float64], column: int, others: NDArray[np.intp]) -> list[int]:
    """Which of the other metrics say the same as one, the one most alike first."""
    r = np.abs(correlations(values[:, others], values[:, column]))
    r[others == column] = np.nan
    order = np.argsort(-np.nan_to_num(r), kind="stable")
    return [int(others[at]) for at in order if r[at] >= ALIKE]


def _evidence(strength: NDArray[np.float64]) -> float:
    return float(np.sort(strength)[::-1][:MEMBERS].sum()) / MEMBERS


def _standardised(values: NDArray[np.float64]) -> NDArray[np.float64]:
    centred = values - values.mean(axis=0)
    return np.asarray(centred / np.maximum(centred.std(axis=0), np.finfo(float).tiny))
