"""Precision, recall, k-recall of waves and k-precision of threads, as section V.H defines them (S3).

A ranking is a sequence of clusters, worst first, each of one member or more. If `the top k` cuts a cluster, the order
inside it decides. The expected value over all orders counts then: the paper's tie (section VI.B, figure 9).

The paper leaves some choices open. A method that ranks nothing is precise. Recall, k-recall and k-precision are of
tests and waves in which something deviates. The divisor of k-precision is k, or the number of deviating threads if that
is less. Only so can the paper's 3-precision be its recall, 76.61 %, since many waves have fewer than three.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from tests.evaluation.pools.simulation import KINDS, PUBLISHED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.evaluation.pools.simulation import Fault, Pool

TOP: Final = (1, 2, 3)


@dataclass(frozen=True)
class Cluster:
    """An entry of a ranking.

    Attributes:
        members: ids of threads, or names of waves.
        kind: how they deviate, in the operator's words; empty if the method does not report it.

    """

    members: tuple[str, ...]
    kind: str = ""


@dataclass(frozen=True)
class Quality:
    """The quality of one ranking: shares between 0 and 1, or NaN for a share of nothing.

    Attributes:
        precision: the deviating share of the ranked ones.
        recall: the ranked share of the deviating ones.
        top: k-recall or k-precision, for k of 1, 2, 3.
        wrong: the number of ranked ones that do not deviate.

    """

    precision: float
    recall: float
    top: tuple[float, ...]
    wrong: int


@dataclass(frozen=True)
class Count:
    """The counts of one kind of fault in one wave.

    Attributes:
        there: threads with the fault.
        ranked: those of them that are ranked.
        named: those of them whose kind is right.
        wrong: threads without a fault that are ranked, as of this kind or as of none.

    """

    there: int
    ranked: int
    named: int
    wrong: int


def wave_of(row: str) -> str:
    """The group of a thread: the parents in its id."""
    return row.rpartition("/")[0]


def waves(test: Pool, ranking: Sequence[Cluster]) -> Quality:
    """Score the ranking of waves: `precision_w`, `recall_w`, `k-recall_w`."""
    deviations = dict.fromkeys(map(wave_of, test.rows), 0)
    for each in test.injections:
        deviations[wave_of(each.row)] += 1
    precision, recall, wrong = _compared(ranking, {wave for wave, count in deviations.items() if count})
    most = sorted(deviations.values(), reverse=True)
    top = tuple(_share(_in_top(ranking, deviations, k), sum(most[:k])) for k in TOP)
    return Quality(precision, recall, top, wrong)


def threads(test: Pool, wave: str, ranking: Sequence[Cluster]) -> Quality:
    """Score the ranking of the threads of one wave: `precision_t`, `recall_t`, `k-precision_t`."""
    deviating = {each.row: 1 for each in test.injections if wave_of(each.row) == wave}
    precision, recall, wrong = _compared(ranking, set(deviating))
    top = tuple(_share(_in_top(ranking, deviating, k), min(k, len(deviating))) for k in TOP)
    return Quality(precision, recall, top, wrong)


def by_fault(test: Pool, wave: str, ranking: Sequence[Cluster]) -> dict[Fault, Count]:
    """Count the same threads by their faults."""
    faults = {each.row: each.fault for each in test.injections if wave_of(each.row) == wave}
    kinds = {member: each.kind for each in reversed(ranking) for member in each.members}
    counts: dict[Fault, Count] = {}
    for fault in PUBLISHED:
        mine = [row for row, each in faults.items() if each == fault]
        counts[fault] = Count(
            there=len(mine),
            ranked=sum(row in kinds for row in mine),
            named=sum(kinds.get(row) in KINDS[fault] for row in mine),
            wrong=sum(row not in faults and (not kind or kind in KINDS[fault]) for row, kind in kinds.items()),
        )
    return counts


def _compared(ranking: Sequence[Cluster], deviating: set[str]) -> tuple[float, float, int]:
    """Return the precision, the recall, and the number of ranked ones that do not deviate."""
    ranked = {member for each in ranking for member in each.members}
    right = len(ranked & deviating)
    return right / len(ranked) if ranked else 1.0, _share(right, len(deviating)), len(ranked) - right


def _in_top(ranking: Sequence[Cluster], deviations: Mapping[str, int], k: int) -> float:
    """Return the expected number of deviations in the first k members."""
    found, left = 0.0, k
    seen: set[str] = set()
    for cluster in ranking:
        members = [each for each in cluster.members if each not in seen]
        seen.update(members)
        if members:
            taken = min(left, len(members))
            found += taken / len(members) * sum(deviations.get(each, 0) for each in members)
            left -= taken
    return found


def _share(part: float, whole: float) -> float:
    return part / whole if whole else np.nan
