"""Pools for Prometheus: the number of members of each, and which of them deviate from the others."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from laggard.pipeline.metrics.declared import MAX_STREAMS
from laggard.pipeline.metrics.samples import label, member, present, sample

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence, Set

    from prometheus_client.samples import Sample

    from laggard.operators.covariance.results import Deviation


@dataclass(slots=True)
class _Compared:
    """The newest comparison of a pool.

    Attributes:
        members: the number of members at the newest tick.
        deviations: the deviations at that tick, worst first; only those beyond the budget, and younger members.
        kinds: the kinds of deviation of its members, since this process has the pool.

    """

    members: int
    deviations: Sequence[Deviation]
    kinds: Set[str]


class ShownPools:
    """All pools. Its methods are for one thread at a time.

    The pools are bounded by `MAX_STREAMS`: the one with the oldest comparison is dropped first.
    """

    def __init__(self) -> None:
        self._compared: OrderedDict[tuple[str, str], _Compared] = OrderedDict()  # by comparison, the oldest first

    def compared(self, operator: str, pool: str, members: int, deviations: Sequence[Deviation]) -> None:
        """Store a comparison of the members of a pool. See `Observer`."""
        before = self._compared.pop((operator, pool), None)
        deviating = [one for one in deviations if one.score > 1.0 or one.kind == "younger"]
        kinds = (before.kinds if before else set()) | {one.kind for one in deviating}
        self._compared[operator, pool] = _Compared(members, deviating, kinds)
        if len(self._compared) > MAX_STREAMS:
            self._compared.popitem(last=False)

    def lost(self, operator: str, pools: Iterable[str]) -> None:
        """Forget these pools of the operator."""
        for pool in pools:
            self._compared.pop((operator, pool), None)

    def samples(self, streams: Set[tuple[str, str]], top: int) -> list[Sample]:
        """Return the samples of these pools; of those with the same labels the first counts.

        Args:
            streams: operators and pools.
            top: the most deviations of each pool.

        """
        shown = sorted(self._compared.keys() & streams)
        return [found for which in shown for found in _samples(label(which[1]), self._compared[which], top)]


def _samples(pool: str, one: _Compared, top: int) -> Iterable[Sample]:
    yield sample("pool_members", {"pool": pool}, one.members)
    for kind in sorted(one.kinds):
        rows = {row for deviation in one.deviations if deviation.kind == kind for row in deviation.rows}
        yield sample("pool_deviating", {"pool": pool, "kind": kind}, len(rows))
    worst: dict[tuple[str, str, str], Deviation] = {}
    for deviation in one.deviations:
        name = member(deviation.name)
        feature = label(deviation.features[0].feature) if deviation.features else ""
        worst.setdefault((name, deviation.kind, feature), deviation)
    yield sample("pool_deviations_left_out", {"pool": pool}, max(len(worst) - top, 0))
    for (name, kind, feature), deviation in islice(worst.items(), top):
        labels = {"pool": pool, "member": name, "kind": kind, "feature": feature}
        yield sample("pool_deviation_score", labels, deviation.score)
        yield from present(labels, pool_deviation_start_timestamp_seconds=deviation.begin_ts)
        for found in deviation.features[:1]:
            yield from present(
                labels,
                pool_deviation_value=found.value,
                pool_deviation_usual=found.mean,
                pool_deviation_usual_deviation=found.standard_deviation,
            )
