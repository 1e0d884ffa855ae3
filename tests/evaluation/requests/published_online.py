"""The operator on S4's own recording: which published outliers it finds as the requests come, and what it adds."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from laggard.operators.requests.detector import Requests
from laggard.operators.requests.results import Traced
from tests.evaluation.requests.published_data import STATES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from laggard.operators.requests.results import Cluster
    from tests.evaluation.requests.published_data import Recording


class Judgements(NamedTuple):
    """What the operator said of each request, by its place in the recording, shape (requests,) each.

    Attributes:
        slow: an outlier by the time it spent.
        odd: by what it did.
        young: whether too little was known when it came.
        cluster: the number of its cluster; 0 of normal ones.
        eps_s: within which requests were neighbors when it came.
        clusters: all that are remembered in the end.
        request_ms: CPU time that a request took, on average.

    """

    slow: NDArray[np.bool_]
    odd: NDArray[np.bool_]
    young: NDArray[np.bool_]
    cluster: NDArray[np.intp]
    eps_s: NDArray[np.float64]
    clusters: tuple[Cluster, ...]
    request_ms: float


def arrivals(recording: Recording) -> NDArray[np.intp]:
    """The requests in the order in which they end: then they are known."""
    return np.argsort(recording.began_ns + recording.duration_ns, kind="stable")


def traced(recording: Recording, order: NDArray[np.intp]) -> Iterator[Traced]:
    """The requests in this order, as the operator takes them."""
    words, ends = recording.syscalls.words, np.cumsum(recording.syscalls.lengths)
    for each in order.tolist():
        codes = recording.syscalls.codes[ends[each] - recording.syscalls.lengths[each] : ends[each]]
        entered = np.flatnonzero(recording.counts[each]).tolist()
        yield Traced(
            ts=recording.began_ns[each] / 1e9,
            request=recording.ids[each],
            duration_s=recording.duration_ns[each] / 1e9,
            counts={STATES[state]: float(recording.counts[each, state]) for state in entered},
            times_s={STATES[state]: recording.times_ns[each, state] / 1e9 for state in entered},
            syscalls=[words[code] for code in codes.tolist()],
        )


def judge(recording: Recording, eps_s: float | None) -> Judgements:
    """Every request scored, then learned."""
    order, count = arrivals(recording), len(recording.ids)
    slow, odd, young = (np.zeros(count, np.bool_) for _ in range(3))
    cluster, eps = np.zeros(count, np.intp), np.full(count, np.nan)
    operator = Requests(eps_s=eps_s)
    taken = 0.0
    for at, request in zip(order, traced(recording, order), strict=True):
        begin = time.process_time()
        judged = operator.score(request)
        operator.learn(request, judged)
        taken += time.process_time() - begin
        slow[at], odd[at] = judged.outlier and not judged.odd, judged.outlier and judged.odd
        young[at], cluster[at], eps[at] = judged.young, judged.cluster if judged.outlier else 0, judged.eps_s
    return Judgements(slow, odd, young, cluster, eps, operator.clusters(), 1e3 * taken / max(count, 1))


def table(recording: Recording, clusters: NDArray[np.intp], eps: Sequence[float | None] = (0.025, None)) -> str:
    """What it found of the published outliers, and what else, as Markdown.

    `clusters` is the published method's word, 0 for normal requests.
    """
    published = clusters > 0
    said = {("auto" if each is None else f"{1e3 * each:g} ms"): judge(recording, each) for each in eps}
    durations = recording.duration_ms
    lines = ["| eps | " + " | ".join(said) + " |", "|---" * (len(said) + 1) + "|"]

    def line(name: str, values: Iterator[object]) -> None:
        lines.append(f"| {name} | " + " | ".join(map(str, values)) + " |")

    def median(mine: NDArray[np.bool_]) -> str:
        return f"{np.count_nonzero(mine)} ({np.median(durations[mine]):.0f} ms)" if mine.any() else "0"

    line("of the published outliers", (share(each.slow | each.odd, published) for each in said.values()))
    for number in range(1, int(clusters.max(initial=0)) + 1):
        of = clusters == number
        line(f"... cluster {number}", (share(each.slow | each.odd, of) for each in said.values()))
    line("... that came while it was not young", (share(each.slow, published & ~each.young) for each in said.values()))
    line("others, by their times (median duration)", (median(each.slow & ~published) for each in said.values()))
    line("others, odd (median duration)", (median(each.odd & ~published) for each in said.values()))
    line("eps in the end, ms", (f"{1e3 * last(recording, each.eps_s):.1f}" for each in said.values()))
    line("CPU time of a request, ms", (f"{each.request_ms:.2f}" for each in said.values()))
    return "\n".join([*lines, "", *(f"eps {name}:\n{clustered(clusters, each)}" for name, each in said.items())])


def share(found: NDArray[np.bool_], there: NDArray[np.bool_]) -> str:
    """How many of those that are there were found."""
    return f"{np.count_nonzero(found & there)} of {np.count_nonzero(there)}"


def last(recording: Recording, values: NDArray[np.float64]) -> float:
    """The value when the last request came."""
    return float(values[arrivals(recording)[-1]])


def clustered(published: NDArray[np.intp], said: Judgements, most: int = 8) -> str:
    """The operator's clusters with the most requests, what is in them, and what sets them apart."""
    lines = []
    for cluster in said.clusters[:most]:
        members = Counter(published[said.cluster == cluster.number].tolist())
        told = ", ".join(
            f"{count} of cluster {of}" if of else f"{count} others" for of, count in sorted(members.items())
        )
        evidence = cluster.evidence
        found = "; ".join(
            f"{' '.join(each.what)} {each.count:.1f} ({each.usual_count:.1f})" for each in evidence.differences[:3]
        )
        lines.append(
            f"  {cluster.requests} requests ({told}), {1e3 * evidence.duration_s:.0f} ms:"
            f" {found}{'' if evidence.explained else '; unexplained'}"
        )
    return "\n".join(lines)
