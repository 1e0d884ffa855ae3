"""Mean profiles of requests: the events and times of normal ones, and of those of a cluster."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from laggard.operators.requests.ngrams import ALONE, APART, STEADY
from laggard.operators.requests.results import Difference, Evidence, Named

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from laggard.operators.requests.results import EvidenceKind, Traced

Key = tuple[str, ...]
"""The kind of a thing and the thing: `("ngram", "connect", "connect")`."""

MOST_KEYS: Final = 8_192
"""The most things of a service. Beyond, those in the fewest requests are forgotten."""

MOST_DIFFERENCES: Final = 60

_TIME_SPREAD: Final = 0.1  # of the mean time
_TIME_SPREAD_S: Final = 0.0005
_EXPLAINS: Final = 0.25  # the least explained share of the lost time
_MOST_HAVE: Final = 0.5
_MANIFOLD: Final = 1.5
_UTMOST: Final = 1e4
_NAME: Final = ("name",)
"""The key of all requests with a name; `("name", "GET /cart")` is that of one name."""

_FEW_NORMAL, _FEW = 50.0, 3.0  # with fewer named requests, a name tells nothing
_SHARED: Final = 0.8  # the least share of a name that distinguishes requests
_RARE: Final = 0.1  # and its largest one among normal requests


class Sums(NamedTuple):
    """Sums over requests for one thing; 0 for requests without it.

    Attributes:
        present: the number of requests with it.
        times: the sum of its counts.
        times_squared: the sum of their squares.
        time_s: the sum of its times.
        time_s_squared: the sum of their squares.
        pid: the process in the newest request; an integer.

    """

    present: float
    times: float
    times_squared: float
    time_s: float
    time_s_squared: float
    pid: float


_NONE = Sums(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)

Profile = dict[Key, tuple[float, float, int]]
"""The profile of a request: count, time in seconds and process by thing."""


def profile(request: Traced) -> Profile:
    """Return the profile of a request: its name, states, n-grams of calls, and where its time went."""
    found: Profile = {}
    if request.name:
        found[_NAME] = found["name", request.name] = 1.0, 0.0, 0
    for state in dict.fromkeys((*request.times_s, *request.counts)):  # a set has no order
        found["state", state] = request.counts.get(state, 0.0), request.times_s.get(state, 0.0), 0
    for ngram, count in ngrams_of(request.syscalls):
        found["ngram", *ngram] = float(count), 0.0, 0
    for use in request.uses:
        times, time_s, _ = found.get(("spent", *use.what), (0.0, 0.0, 0))
        found["spent", *use.what] = times + use.times, time_s + use.time_s, use.pid
    for what, time_s in request.beyond.items():
        found["beyond", *what] = 1.0, time_s, 0
    return found


def ngrams_of(syscalls: Sequence[str]) -> Iterator[tuple[tuple[str, ...], int]]:
    """Count the n-grams of one to three system calls (section III.D)."""
    calls = list(syscalls)
    for one, count in Counter(calls).items():
        yield (one,), count
    yield from Counter(pairwise(calls)).items()
    yield from Counter(zip(calls, calls[1:], calls[2:], strict=False)).items()


class Moments:
    """Means and spreads over requests, by thing, with forgetting.

    Parameters:
        memory: all sums are halved after this number of requests, so that at most twice as many count.

    Attributes:
        weight: the effective number of requests.

    """

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self.weight = 0.0
        self.duration_s = 0.0
        self.syscalls = 0.0
        self._sums: dict[Key, Sums] = {}

    def add(self, request: Traced, found: Profile) -> None:
        """Learn a request with its profile."""
        if self.weight >= 2 * self.memory:
            self._halve()
        self.weight += 1.0
        self.duration_s += request.duration_s
        self.syscalls += len(request.syscalls)
        sums = self._sums
        for key, (count, time_s, pid) in found.items():
            old = sums.get(key, _NONE)
            sums[key] = Sums(
                old[0] + 1.0,
                old[1] + count,
                old[2] + count * count,
                old[3] + time_s,
                old[4] + time_s * time_s,
                float(pid) or old[5],
            )
        if len(sums) > MOST_KEYS:
            # Among equally rare things n-grams go first: one long request has more of them than are kept.
            top = sorted(sums, key=lambda key: (sums[key].present, key[0] != "ngram"), reverse=True)[: MOST_KEYS // 2]
            self._sums = {key: sums[key] for key in top}

    def _halve(self) -> None:
        self.weight, self.duration_s, self.syscalls = self.weight / 2, self.duration_s / 2, self.syscalls / 2
        self._sums = {
            key: Sums(*(each / 2 for each in sums))._replace(pid=sums.pid)
            for key, sums in self._sums.items()
            if sums.present > 1.0
        }

    def sums(self, key: Key) -> Sums:
        """Return the sums of a thing."""
        return self._sums.get(key, _NONE)

    def count_spread(self, key: Key) -> float:
        """Return the spread of the counts of a thing, as in `ngrams.usual`."""
        sums, weight = self.sums(key), max(self.weight, 1.0)
        mean = sums.times / weight
        return math.sqrt(max(sums.times_squared / weight - mean * mean, STEADY * STEADY))

    def keys(self) -> list[Key]:
        """Return all things."""
        return list(self._sums)

    def mean_s(self) -> dict[str, float]:
        """Return the mean seconds in each state."""
        weight = max(self.weight, 1.0)
        return {key[1]: sums.time_s / weight for key, sums in self._sums.items() if key[0] == "state"}

    def mean_counts(self) -> dict[str, float]:
        """Return the mean number of entries into each state."""
        weight = max(self.weight, 1.0)
        return {key[1]: sums.times / weight for key, sums in self._sums.items() if key[0] == "state"}

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""
        return {
            "weight": self.weight,
            "duration_s": self.duration_s,
            "syscalls": self.syscalls,
            "keys": [list(key) for key in self._sums],
            "sums": [list(sums) for sums in self._sums.values()],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `snapshot`. Raises `ValueError` that names the part that does not fit."""
        self.weight, self.duration_s = float(state["weight"]), float(state["duration_s"])
        self.syscalls = float(state["syscalls"])
        self._sums = {
            tuple(key): Sums(*map(float, sums)) for key, sums in zip(state["keys"], state["sums"], strict=True)
        }


def moments(requests: Sequence[Traced]) -> Moments:
    """Return the means and spreads over some requests with equal weights."""
    found = Moments(max(len(requests), 1))
    for each in requests:
        found.add(each, profile(each))
    return found


def evidence(some: Moments, usual: Moments) -> Evidence:
    """Compare some requests with normal ones.

    Differences are in spreads of normal requests: of counts for n-grams, as in `ngrams.distinctions`, of times for
    other things; for failed calls the larger of both. Differences of times are ordered by their share of the lost time,
    n-grams and failed calls by their statistic.
    """
    weight, usual_weight = max(some.weight, 1.0), max(usual.weight, 1.0)
    duration_s = some.duration_s / weight
    usual_duration_s = usual.duration_s / usual_weight if usual.weight else math.nan
    lost_s = duration_s - (0.0 if math.isnan(usual_duration_s) else usual_duration_s)
    ranked = []
    for key in dict.fromkeys((*some.keys(), *(each for each in usual.keys() if common(each, usual)))):  # noqa: SIM118
        if key[0] == "name":
            continue
        found = _difference(key, some, weight, usual, usual_weight)
        ranked.append((_worth(found, lost_s), found))
    ranked.sort(key=lambda each: -each[0])
    return Evidence(
        requests=round(weight),
        duration_s=duration_s,
        usual_duration_s=usual_duration_s,
        times_s=some.mean_s(),
        usual_s=usual.mean_s(),
        counts=some.mean_counts(),
        usual_counts=usual.mean_counts(),
        syscalls=some.syscalls / weight,
        usual_syscalls=usual.syscalls / usual_weight,
        differences=tuple(each for _, each in ranked[:MOST_DIFFERENCES]),
        explained=any(_explains(each, lost_s, weight) for _, each in ranked)
        or _explain_together((each for _, each in ranked), lost_s),
        named=distinctive_name(some, usual),
    )


def distinctive_name(some: Moments, usual: Moments) -> Named | None:
    """Return the name that most of some requests have and normal ones rarely; None without one.

    The name of a single request is no evidence: most services have many rare names. Several requests that share one by
    chance are rare. The statistic is the square root of the likelihood ratio of both shares, with half a normal request
    more (G-test of Sokal and Rohlf, Biometry, 1981).
    """
    of, of_normal = some.sums(_NAME).present, usual.sums(_NAME).present
    names = [key for key in some.keys() if key[0] == "name" and key != _NAME]  # noqa: SIM118 - no dictionary
    if of < _FEW or of_normal < _FEW_NORMAL or not names:
        return None
    key = max(names, key=lambda each: (some.sums(each).present, each))
    requests, normal = some.sums(key).present, usual.sums(key).present
    share, usual_share = min(requests / of, 1.0), (normal + 0.5) / (of_normal + 1.0)
    if share < _SHARED or usual_share > _RARE:
        return None
    others = (1.0 - share) * math.log((1.0 - share) / (1.0 - usual_share)) if share < 1.0 else 0.0
    statistic = math.sqrt(2.0 * of * (share * math.log(share / usual_share) + others))
    return Named(key[1], *map(round, (requests, of, normal, of_normal))) if statistic > APART else None


def common(key: Key, usual: Moments) -> bool:
    """Return whether most normal requests have it, so that its absence is informative."""
    return usual.sums(key).present > 0.9 * usual.weight


def _failed(key: Key) -> bool:
    """Return whether it is a failed call, which is informative however fast: a connection was refused."""
    return key[0] == "spent" and bool(key[5])


def _difference(key: Key, some: Moments, weight: float, usual: Moments, usual_weight: float) -> Difference:
    mine, theirs = some.sums(key), usual.sums(key)
    count, usual_count = mine.times / weight, theirs.times / usual_weight
    statistic = (count - usual_count) / usual.count_spread(key)
    time_s, usual_time_s = math.nan, math.nan
    if key[0] != "ngram":
        time_s, usual_time_s = mine.time_s / weight, theirs.time_s / usual_weight
        variance = max(theirs.time_s_squared / usual_weight - usual_time_s * usual_time_s, 0.0)
        spread = math.sqrt(variance + (_TIME_SPREAD * usual_time_s) ** 2 + _TIME_SPREAD_S**2)
        of_time = (time_s - usual_time_s) / spread
        statistic = max(of_time, statistic, key=abs) if _failed(key) else of_time
    return Difference(
        kind=cast("EvidenceKind", key[0]),
        what=key[1:],
        count=count,
        usual_count=usual_count,
        time_s=time_s,
        usual_time_s=usual_time_s,
        share=mine.present / weight,
        usual_share=theirs.present / usual_weight,
        statistic=statistic,
        pid=int(mine.pid),
    )


def _worth(difference: Difference, lost_s: float) -> float:
    """Return the rank of a difference, comparable between times and counts."""
    surprise = min(math.log1p(abs(difference.statistic)) / math.log1p(_UTMOST), 1.0)
    of_count = 0.5 * surprise * max(difference.share, difference.usual_share)
    if difference.kind == "ngram" or lost_s <= 0.0:
        return of_count
    share = (difference.time_s - difference.usual_time_s) / lost_s
    of_time = min(max(share, 0.0), 1.0) * abs(difference.statistic) / (abs(difference.statistic) + APART)
    return max(of_time, of_count) if _failed((difference.kind, *difference.what)) else of_time


def _explains(difference: Difference, lost_s: float, requests: float) -> bool:
    """Return whether a difference is a cause: in most requests, beyond chance, and not a state alone."""
    if difference.statistic <= APART or difference.kind in {"state", "beyond"}:
        return False
    if (
        difference.kind == "spent"
        and lost_s > 0.0
        and difference.time_s - difference.usual_time_s >= _EXPLAINS * lost_s
    ):
        return True
    much_more = difference.count >= _MANIFOLD * difference.usual_count and difference.share >= _MOST_HAVE
    return much_more and difference.statistic > max(APART, ALONE / requests)


def _explain_together(differences: Iterable[Difference], lost_s: float) -> bool:
    """Return whether waits of one kind for the files of one folder are the cause, one file per request."""
    pooled: dict[tuple[str, ...], tuple[float, float]] = {}
    for each in differences:
        if each.kind == "spent" and each.time_s > each.usual_time_s:
            state, call, on, _, _ = each.what
            key = state, call, on.rpartition("/")[0]
            time_s, share = pooled.get(key, (0.0, 0.0))
            pooled[key] = time_s + each.time_s - each.usual_time_s, share + each.share
    return lost_s > 0.0 and any(
        key[2] and time_s >= _EXPLAINS * lost_s and share >= _MOST_HAVE for key, (time_s, share) in pooled.items()
    )
