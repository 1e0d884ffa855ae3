"""What requests do and spend their time on, on average: of normal ones, and of those that are alike."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from laggard.operators.requests.ngrams import ALONE, APART, STEADY
from laggard.operators.requests.results import Difference, Evidence

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from laggard.operators.requests.results import EvidenceKind, Traced

Key = tuple[str, ...]
"""The kind of a thing and the thing: `("ngram", "connect", "connect")`."""

MOST_KEYS: Final = 8_192
"""Of all requests of a service. Beyond, what the fewest have is forgotten."""

MOST_DIFFERENCES: Final = 60

_TIME_SPREAD: Final = 0.1  # of the usual time
_TIME_SPREAD_S: Final = 0.0005
_EXPLAINS: Final = 0.25  # of the time that is lost: so much must be known of where it went
_MOST_HAVE: Final = 0.5
_MANIFOLD: Final = 1.5
_UTMOST: Final = 1e4


class Sums(NamedTuple):
    """Of one thing, over requests; absent is 0.

    Attributes:
        present: of how many requests.
        times: how often.
        times_squared: of its square.
        time_s: for how long.
        time_s_squared: of its square.
        pid: of the newest; a whole number.

    """

    present: float
    times: float
    times_squared: float
    time_s: float
    time_s_squared: float
    pid: float


_NONE = Sums(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)

Profile = dict[Key, tuple[float, float, int]]
"""Of one request: by thing how often, for how long in seconds, and by which process."""


def profile(request: Traced) -> Profile:
    """All that is compared of a request: states, n-grams of one to three system calls, and what time was spent on."""
    found: Profile = {}
    for state in dict.fromkeys((*request.times_s, *request.counts)):  # a set has no order
        found["state", state] = request.counts.get(state, 0.0), request.times_s.get(state, 0.0), 0
    for ngram, count in ngrams_of(request.syscalls):
        found["ngram", *ngram] = float(count), 0.0, 0
    for use in request.uses:
        times, time_s, _ = found.get(("spent", *use.what), (0.0, 0.0, 0))
        found["spent", *use.what] = times + use.times, time_s + use.time_s, use.pid
    return found


def ngrams_of(syscalls: Sequence[str]) -> Iterator[tuple[tuple[str, ...], int]]:
    """All n-grams of one to three system calls, with how often they are there (section III.D)."""
    calls = list(syscalls)
    for one, count in Counter(calls).items():
        yield (one,), count
    yield from Counter(pairwise(calls)).items()
    yield from Counter(zip(calls, calls[1:], calls[2:], strict=False)).items()


class Moments:
    """Means and spreads over requests, by thing; the oldest count ever less.

    Parameters:
        memory: after so many requests more all sums are halved, so that at most twice as many count.

    Attributes:
        weight: how many requests count.

    """

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self.weight = 0.0
        self.duration_s = 0.0
        self.syscalls = 0.0
        self._sums: dict[Key, Sums] = {}

    def add(self, request: Traced, found: Profile) -> None:
        """Take a request in, with its profile."""
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
            # Of those that are as rare, n-grams go first: one long request has more of them than are kept.
            kept = sorted(sums, key=lambda key: (sums[key].present, key[0] != "ngram"), reverse=True)[: MOST_KEYS // 2]
            self._sums = {key: sums[key] for key in kept}

    def _halve(self) -> None:
        self.weight, self.duration_s, self.syscalls = self.weight / 2, self.duration_s / 2, self.syscalls / 2
        self._sums = {
            key: Sums(*(each / 2 for each in sums))._replace(pid=sums.pid)
            for key, sums in self._sums.items()
            if sums.present > 1.0
        }

    def sums(self, key: Key) -> Sums:
        """Of one thing."""
        return self._sums.get(key, _NONE)

    def count_spread(self, key: Key) -> float:
        """The standard deviation of how often a thing is there, as `ngrams.usual` takes it."""
        sums, weight = self.sums(key), max(self.weight, 1.0)
        mean = sums.times / weight
        return math.sqrt(max(sums.times_squared / weight - mean * mean, STEADY * STEADY))

    def keys(self) -> list[Key]:
        """All things that are known."""
        return list(self._sums)

    def mean_s(self) -> dict[str, float]:
        """Mean seconds by state."""
        weight = max(self.weight, 1.0)
        return {key[1]: sums.time_s / weight for key, sums in self._sums.items() if key[0] == "state"}

    def mean_counts(self) -> dict[str, float]:
        """Mean number of times each state was entered."""
        weight = max(self.weight, 1.0)
        return {key[1]: sums.times / weight for key, sums in self._sums.items() if key[0] == "state"}

    def snapshot(self) -> dict[str, Any]:
        """A copy of the state as plain data."""
        return {
            "weight": self.weight,
            "duration_s": self.duration_s,
            "syscalls": self.syscalls,
            "keys": [list(key) for key in self._sums],
            "sums": [list(sums) for sums in self._sums.values()],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over a state that `snapshot` gave. Raises `ValueError` naming what does not fit."""
        self.weight, self.duration_s = float(state["weight"]), float(state["duration_s"])
        self.syscalls = float(state["syscalls"])
        self._sums = {
            tuple(key): Sums(*map(float, sums)) for key, sums in zip(state["keys"], state["sums"], strict=True)
        }


def moments(requests: Sequence[Traced]) -> Moments:
    """Means and spreads over some requests, each of which counts alike."""
    found = Moments(max(len(requests), 1))
    for each in requests:
        found.add(each, profile(each))
    return found


def evidence(some: Moments, usual: Moments) -> Evidence:
    """What sets some requests apart from normal ones.

    A difference is measured in spreads of normal requests: of n-grams that of their counts, as in
    `ngrams.distinctions`; else that of times; of calls that failed the greater of both. Those of times stand in the
    order of the share that they have of the time lost, n-grams and calls that failed by their statistic.
    """
    weight, usual_weight = max(some.weight, 1.0), max(usual.weight, 1.0)
    duration_s = some.duration_s / weight
    usual_duration_s = usual.duration_s / usual_weight if usual.weight else math.nan
    lost_s = duration_s - (0.0 if math.isnan(usual_duration_s) else usual_duration_s)
    ranked = []
    for key in dict.fromkeys((*some.keys(), *(each for each in usual.keys() if common(each, usual)))):  # noqa: SIM118
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
    )


def common(key: Key, usual: Moments) -> bool:
    """Whether most normal requests have it, so that it tells something where it is not there."""
    return usual.sums(key).present > 0.9 * usual.weight


def _failed(key: Key) -> bool:
    """Whether it is about calls that failed, which tell something however fast they did: a connection is refused."""
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
    kind: EvidenceKind = "ngram" if key[0] == "ngram" else "state" if key[0] == "state" else "spent"
    return Difference(
        kind=kind,
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


def _worth(found: Difference, lost_s: float) -> float:
    """By what differences are ranked, those of times and those of counts together."""
    surprise = min(math.log1p(abs(found.statistic)) / math.log1p(_UTMOST), 1.0)
    of_count = 0.5 * surprise * max(found.share, found.usual_share)
    if found.kind == "ngram" or lost_s <= 0.0:
        return of_count
    share = (found.time_s - found.usual_time_s) / lost_s
    of_time = min(max(share, 0.0), 1.0) * abs(found.statistic) / (abs(found.statistic) + APART)
    return max(of_time, of_count) if _failed((found.kind, *found.what)) else of_time


def _explains(found: Difference, lost_s: float, requests: float) -> bool:
    """Whether a difference says why: most of these have it, it is beyond chance, and it is not a state alone."""
    if found.statistic <= APART or found.kind == "state":
        return False
    if found.kind == "spent" and lost_s > 0.0 and found.time_s - found.usual_time_s >= _EXPLAINS * lost_s:
        return True
    much_more = found.count >= _MANIFOLD * found.usual_count and found.share >= _MOST_HAVE
    return much_more and found.statistic > max(APART, ALONE / requests)


def _explain_together(found: Iterable[Difference], lost_s: float) -> bool:
    """Whether waits of one kind in files of one folder say why, where each request waits for another file."""
    pooled: dict[tuple[str, ...], tuple[float, float]] = {}
    for each in found:
        if each.kind == "spent" and each.time_s > each.usual_time_s:
            state, call, on, _, _ = each.what
            key = state, call, on.rpartition("/")[0]
            time_s, share = pooled.get(key, (0.0, 0.0))
            pooled[key] = time_s + each.time_s - each.usual_time_s, share + each.share
    return lost_s > 0.0 and any(
        key[2] and time_s >= _EXPLAINS * lost_s and share >= _MOST_HAVE for key, (time_s, share) in pooled.items()
    )
