"""The traits of many metrics as arrays: their roles, their resources, and the gauges of shortages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from laggard.operators.regression.models import UNKNOWN, Role, Trait

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

ROLES: Final[tuple[Role, ...]] = ("wait", "free", "use", "load", "")


class _Known(NamedTuple):
    """The trait of a metric, the number of its host's resource, -1 for none, and a negligible difference of it."""

    trait: Trait
    group: int
    resolution: float


class Traits:
    """The traits of many metrics, as arrays.

    Parameters:
        trait: the trait of a metric by its id.
        resolution: a negligible difference, in a metric's unit, by the end of its name.

    Attributes:
        resolutions: the negligible differences, shape (metrics,), 0 if unknown.
        signs: the signs of coefficients, 0 for either, shape (metrics,).
        groups: the number of the resource of a host that each metric is about; -1 for none.
        barred: whether no model has the metric, shape (metrics,).
        levels: whether the metric is a level, shape (metrics,).
        gauges: the columns of the gauges of a shortage, shape (gauges,).
        kinds: the kind of each gauge, shape (gauges,).
        shorts: the least value of each gauge that means a shortage, shape (gauges,).
        sizes: the column with the size of the resource of each gauge, -1 for none, shape (gauges,).
        resources: host and resource by their number.
        ids: the metrics.

    """

    def __init__(self, trait: Callable[[str], Trait] | None, resolution: Mapping[str, float]) -> None:
        self._roles: NDArray[np.intp] = np.empty(0, np.intp)
        self.signs: NDArray[np.int8] = np.empty(0, np.int8)
        self.groups: NDArray[np.intp] = np.empty(0, np.intp)
        self.barred: NDArray[np.bool_] = np.empty(0, np.bool_)
        self.levels: NDArray[np.bool_] = np.empty(0, np.bool_)
        self.gauges: NDArray[np.intp] = np.empty(0, np.intp)
        self.kinds: NDArray[np.str_] = np.empty(0, np.str_)
        self.shorts: NDArray[np.float64] = np.empty(0)
        self.sizes: NDArray[np.intp] = np.empty(0, np.intp)
        self.resources: list[tuple[str, str]] = []
        self.resolutions: NDArray[np.float64] = np.empty(0)
        self._trait = trait
        self._ends = sorted(resolution.items(), key=lambda item: -len(item[0]))
        self._known: dict[str, _Known] = {}
        self._numbers: dict[tuple[str, str], int] = {}
        self.ids: Sequence[str] = ()

    def follow(self, ids: Sequence[str]) -> None:
        """Set the metrics of the arrays."""
        if ids is self.ids and len(self.signs) == len(ids):
            return
        if len(self._known) > 2 * len(ids) + 1000:
            self._known.clear()
        found = [self._of(name) for name in ids]
        self.ids = ids
        self._roles = np.array([ROLES.index(each.trait.role) for each in found], np.intp)
        self.signs = np.array([each.trait.sign for each in found], np.int8)
        self.groups = np.array([each.group for each in found], np.intp)
        self.barred = np.array([each.trait.barred for each in found], np.bool_)
        self.levels = np.array([each.trait.level for each in found], np.bool_)
        self.resolutions = np.array([each.resolution for each in found], np.float64)
        self._gauge([each.trait for each in found])

    def _gauge(self, traits: Sequence[Trait]) -> None:
        """Set the arrays of gauges."""
        size = {int(self.groups[at]): at for at, each in enumerate(traits) if each.gauge == "size"}
        of = [at for at, each in enumerate(traits) if each.gauge not in {"", "size"} and self.groups[at] >= 0]
        self.gauges = np.array(of, np.intp)
        self.kinds = np.array([traits[at].gauge for at in of], np.str_)
        self.shorts = np.array([traits[at].short for at in of], np.float64)
        self.sizes = np.array([size.get(int(self.groups[at]), -1) for at in of], np.intp)

    def resource(self, metric: str) -> tuple[str, str] | None:
        """Return the host and resource that a metric is about; None if unknown."""
        group = self.group(metric)
        return None if group < 0 else self.resources[group]

    def group(self, metric: str) -> int:
        """Return the number of the host's resource that a metric is about; -1 for none."""
        return self._of(metric).group

    def sign(self, metric: str) -> int:
        """Return the sign of the coefficient of a metric, 0 for either."""
        return self._of(metric).trait.sign

    def weights(self, weights: Mapping[Role, float]) -> NDArray[np.float64]:
        """Return the weight of a correlation with each metric by its role, shape (metrics,)."""
        return np.array([weights[role] for role in ROLES])[self._roles]

    def _of(self, name: str) -> _Known:
        known = self._known.get(name)
        if known is None:
            trait = UNKNOWN if self._trait is None else self._trait(name)
            group = -1
            if trait.resource:
                place = host_of(name), trait.resource
                group = self._numbers.setdefault(place, len(self.resources))
                if group == len(self.resources):
                    self.resources.append(place)
            resolution = next((least for end, least in self._ends if name.endswith(end)), 0.0)
            self._known[name] = known = _Known(trait, group, resolution)
        return known


def host_of(metric: str) -> str:
    """Return the host of a metric: the first part of its row."""
    return metric.partition(":")[0].partition("/")[0]
