"""The operator `requests`: outliers in a stream of requests, clusters of them, and what distinguishes these."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

import numpy as np

from laggard.operators.requests.density import Density
from laggard.operators.requests.results import RequestScore
from laggard.operators.requests.troubles import Signature, Troubles, signature
from laggard.operators.requests.usual import Moments, Profile, evidence, profile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from laggard.operators.requests.results import Cluster, Traced

MOST_STATES: Final = 64
"""The most states of a service; further ones count together."""

MOST_CALLS: Final = 256
"""The most system calls in the space of counts; further ones count together."""

REFERENCE_OF_COUNTS: Final = 2_000
"""The number of requests in the space of counts, where requests that do the same are equal."""

_SMALLEST_EPS_S = 0.001
_SMALLEST_EPS = 1.5  # of log(1 + counts): one call 4.5 times as often, or five that no other request makes
_LARGEST = 1e9  # seconds, or entries: some thirty years. Squares of much larger numbers would overflow
_OTHERS = "..."
_EVERY_UNTIL, _EVERY = 2_000, 4  # normal requests whose profiles are learned: at first all, then one in four
_MEMORY = 5_000


class _Seen(NamedTuple):
    """The results of `score` that `learn` needs."""

    times: NDArray[np.float64]
    counts: NDArray[np.float64]
    odd_score: float
    profile: Profile | None
    signature: Signature


class _Names:
    """The place of each name in a vector of limited length; names without room share the last place."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._places: dict[str, int] = {_OTHERS: 0}

    def place(self, name: str) -> int:
        """Return the place of a name, which is added if it is new."""
        place = self._places.get(name)
        if place is None:
            if len(self._places) >= self._most:
                return 0
            place = self._places[name] = len(self._places)
        return place

    def __len__(self) -> int:
        """Return the number of names."""
        return len(self._places)

    def snapshot(self) -> list[str]:
        """Return the names in the order of their places."""
        return list(self._places)

    def restore(self, names: list[str]) -> None:
        """Restore a `snapshot`."""
        self._places = {str(name): place for place, name in enumerate(names)}


class Requests:
    """Detects and clusters outlying requests of one service in a stream (S4, sections III.C and III.D).

    DBSCAN's noise rule is applied to a sliding window of requests (`density.Density`) in two spaces. One has the
    seconds in each state, as the paper recommends. The other has the logarithms of the counts of system calls, or of
    the entries into states if those are unknown. There, a request that did something else than all others is an outlier
    even if it was fast ("odd").

    Outliers that lost their time in the same way are a cluster with a persistent number (`troubles.Troubles`).

    Parameters:
        eps_s: the radius of neighborhoods in seconds; None to estimate it (`outliers.estimated_eps`).
        minimum_points: the number of requests that make a dense region.
        reference: the number of newest requests in the window.

    Memory: `reference` times the number of states, 2,000 times that of system calls, and `MOST_KEYS` things for normal
    requests and for each of at most 64 clusters.

    Example:
        >>> from laggard.operators.requests.results import Traced
        >>> requests = Requests(eps_s=0.025, minimum_points=5)
        >>> for number in range(200):
        ...     some_s = 0.1 + 0.001 * (number % 7)
        ...     normal = Traced(number, f"r{number}", some_s, {"RU": 3}, {"RU": some_s}, ("read", "write"))
        ...     requests.learn(normal, requests.score(normal))
        >>> slow = Traced(200, "r200", 0.6, {"RU": 3, "BF": 1}, {"RU": 0.1, "BF": 0.5}, ("read", "futex", "write"))
        >>> judged = requests.score(slow)
        >>> judged.outlier, round(judged.score), judged.evidence.differences[0].what
        (True, 20, ('BF',))

    """

    state_version: ClassVar[int] = 2

    def __init__(self, *, eps_s: float | None = None, minimum_points: int = 100, reference: int = 10_000) -> None:
        if eps_s is not None and not eps_s > 0.0:
            raise ValueError(f"expected eps above 0, got {eps_s=}")
        if minimum_points < 1 or reference < minimum_points:
            raise ValueError(f"expected 1 <= minimum_points <= reference, got {minimum_points=}, {reference=}")
        self._times = Density(eps=eps_s, minimum_points=minimum_points, size=reference, smallest_eps=_SMALLEST_EPS_S)
        size = min(reference, REFERENCE_OF_COUNTS)
        self._counts = Density(
            eps=None, minimum_points=min(minimum_points, size), size=size, smallest_eps=_SMALLEST_EPS
        )
        self._states, self._calls = _Names(MOST_STATES), _Names(MOST_CALLS)
        self._usual = Moments(_MEMORY)
        self._troubles = Troubles()
        self._normal = 0

    @property
    def eps_s(self) -> float:
        """The radius of neighborhoods in seconds; NaN before the first estimate."""
        return self._times.eps

    def score(self, request: Traced) -> RequestScore:
        """Score a request by those before it. The model does not change.

        Raises:
            ValueError: a number is NaN, negative or absurdly large.

        """
        _check(request)
        times, counts = self._vectors(request)
        slow, odd = self._times.score(times), self._counts.score(counts)
        score = max(slow, odd)
        if score <= 1.0:
            seen = _Seen(times, counts, odd, None, {})
            return RequestScore(score, False, 0, None, {}, self._times.eps, self._times.young, seen)
        found = profile(request)
        # The times of an odd one say nothing: it took hardly longer than others.
        lost_s = request.duration_s - self._usual.duration_s / max(self._usual.weight, 1.0) if slow > 1.0 else 0.0
        its = signature(found, self._usual, lost_s=lost_s)
        trouble = self._troubles.nearest(its)
        alone = Moments(1)
        alone.add(request, found)
        return RequestScore(
            score=score,
            odd=slow <= 1.0,
            cluster=self._troubles.next_number if trouble is None else trouble.number,
            evidence=evidence(alone, self._usual),
            usual_s=self._usual.mean_s(),
            eps_s=self._times.eps,
            young=self._times.young,
            vector=_Seen(times, counts, odd, found, its),
        )

    def _vectors(self, request: Traced) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        # Names are added here, not in `learn`: the others are 0 in a new place, so no score changes.
        times = np.zeros(MOST_STATES)
        for state, time_s in request.times_s.items():
            times[self._states.place(state)] += time_s
        counts: dict[int, float] = {}
        for call, calls in _did(request).items():
            place = self._calls.place(call)
            counts[place] = counts.get(place, 0.0) + calls
        vector = np.zeros(len(self._calls))
        vector[list(counts)] = list(counts.values())
        return times[: len(self._states)], np.log1p(vector)

    def learn(self, request: Traced, judged: RequestScore) -> None:
        """Learn a request. `judged` is the result of `score` for it just before."""
        seen = judged.vector
        if not isinstance(seen, _Seen):
            raise TypeError(f"expected what score() gave for this request, got {type(seen).__name__}")
        self._times.learn(request.ts, seen.times, outlier=judged.score > 1.0 and not judged.odd)
        self._counts.learn(request.ts, seen.counts, outlier=seen.odd_score > 1.0)
        if seen.profile is not None:
            self._troubles.add(request, seen.profile, seen.signature)
            return
        self._normal += 1
        if self._normal <= _EVERY_UNTIL or self._normal % _EVERY == 0:
            self._usual.add(request, profile(request))

    def clusters(self) -> tuple[Cluster, ...]:
        """Return all clusters, those with the most requests first."""
        found = sorted(self._troubles.found, key=lambda each: (-each.requests, each.number))
        return tuple(each.cluster(self._usual) for each in found)

    def cluster(self, number: int) -> Cluster | None:
        """Return a cluster by its number; None if it was forgotten."""
        return next((each.cluster(self._usual) for each in self._troubles.found if each.number == number), None)

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""
        return {
            "times": self._times.snapshot(),
            "counts": self._counts.snapshot(),
            "states": self._states.snapshot(),
            "calls": self._calls.snapshot(),
            "usual": self._usual.snapshot(),
            "troubles": self._troubles.snapshot(),
            "normal": self._normal,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `snapshot`. Raises `ValueError` that names the part that does not fit."""
        self._times.restore(state["times"])
        self._counts.restore(state["counts"])
        self._states.restore(state["states"])
        self._calls.restore(state["calls"])
        self._usual.restore(state["usual"])
        self._troubles.restore(state["troubles"])
        self._normal = int(state["normal"])


def _check(request: Traced) -> None:
    for name, numbers in (
        ("duration_s", (request.duration_s,)),
        ("times_s", request.times_s.values()),
        ("counts", request.counts.values()),
        ("uses", (use.time_s for use in request.uses)),
    ):
        for number in numbers:
            if not 0.0 <= number <= _LARGEST:
                raise ValueError(f"{name}: expected 0 to {_LARGEST:g}, got {number!r}")


def _did(request: Traced) -> Mapping[str, float]:
    """Return the counts of a request: of its system calls, or of entries into states, which other programs affect."""
    return Counter(request.syscalls) if request.syscalls else {f" {name}": n for name, n in request.counts.items()}
