"""Outlying requests that are alike, as they come: clusters whose names stay."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from laggard.operators.requests.results import Cluster
from laggard.operators.requests.usual import Moments, Profile, common, evidence

if TYPE_CHECKING:
    from laggard.operators.requests.results import Traced
    from laggard.operators.requests.usual import Key

MOST_CLUSTERS: Final = 64
"""Of a service. Beyond, the one that has been quiet for longest of those with the fewest requests is forgotten."""

ALIKE: Final = 0.55
"""Signatures that have so much in common are of the same trouble."""

MEMORY: Final = 200
"""So many requests of a cluster its evidence is from, at most twice as many."""

_MOST_KEYS = 64
_WEIGHTS: Final = {"state": 0.2, "call": 0.2, "spent": 0.4, "did": 0.2}
_BLOCKS: Final = tuple(_WEIGHTS)
_NOTABLE: Final = 0.03  # of the time lost: less is left out of a signature
_UNUSUAL: Final = 7.0  # spreads: twice as often as what is always there once
_LARGEST: Final = 5.0  # of log(1 + count): how often does not matter beyond
_NOTHING: Final = ("",)
_WHERE_DOES_NOT_MATTER: Final = frozenset({"BP"})  # who is preempted is so anywhere
_BY_FOLDER: Final = frozenset({"BD"})  # each request may read a file of its own: that is no trouble of its own

Signature = dict[str, dict[tuple[str, ...], float]]
"""By block, what makes a trouble: unit vectors over things. A block that says nothing is not there."""


def signature(found: Profile, usual: Moments, *, lost_s: float) -> Signature:
    """What a request did, and where its time went, beyond what is usual.

    Three blocks are of lost time, from the coarse to the fine: by state, by state and system call, by all that is known
    of what the time was spent on; each has the square roots of shares, so that the product of two is 1 where time was
    lost alike, whatever it was in all. The fourth has system calls that there were more of; where there are none, how
    often states were entered. Who lost nothing and did nothing more often is told by the calls that it did not make,
    and without any of these it is like all others of that kind: never without a signature, or each were a cluster.
    """
    weight = max(usual.weight, 1.0)
    blocks: Signature = {name: {} for name in _BLOCKS}
    has_calls = any(key[0] == "ngram" for key in found)
    for key, (count, time_s, _) in found.items():
        match key[0]:
            case "state":
                _add(blocks["state"], key[1:], time_s - usual.sums(key).time_s / weight, lost_s)
                if not has_calls:
                    _add_more(blocks["did"], key, count, usual)
            case "spent":
                excess_s = time_s - usual.sums(key).time_s / weight
                state, call, on, by, result = key[1:]
                call = "" if state in _WHERE_DOES_NOT_MATTER else call
                on = on.rpartition("/")[0] or on if state in _BY_FOLDER else on
                _add(blocks["call"], (state, call), excess_s, lost_s)
                what = (state, "", "", by, "") if state in _WHERE_DOES_NOT_MATTER else (state, call, on, by, result)
                _add(blocks["spent"], what, excess_s, lost_s)
            case "ngram" if len(key) < 4:
                _add_more(blocks["did"], key, count, usual)
    for name in ("state", "call", "spent"):
        blocks[name] = {key: math.sqrt(each) for key, each in blocks[name].items() if each > _NOTABLE * lost_s}
    if not any(blocks.values()):
        missing = (key for key in usual.keys() if key[0] == "ngram" and len(key) == 2)  # noqa: SIM118 - no dictionary
        blocks["did"] = {("no", *key[1:]): 1.0 for key in missing if key not in found and common(key, usual)}
    if not any(blocks.values()):
        blocks["did"] = {_NOTHING: 1.0}
    return {name: _unit(block) for name, block in blocks.items() if block}


def _add_more(block: dict[tuple[str, ...], float], key: Key, count: float, usual: Moments) -> None:
    usually = usual.sums(key).times / max(usual.weight, 1.0)
    if count - usually > _UNUSUAL * usual.count_spread(key):
        block[key[1:]] = min(math.log1p(count) - math.log1p(usually), _LARGEST)


def _add(block: dict[tuple[str, ...], float], key: tuple[str, ...], excess_s: float, lost_s: float) -> None:
    if lost_s > 0.0 and excess_s > 0.0:
        block[key] = block.get(key, 0.0) + excess_s


def _unit(block: dict[tuple[str, ...], float]) -> dict[tuple[str, ...], float]:
    largest = sorted(block, key=lambda key: (-block[key], key))[:_MOST_KEYS]
    norm = math.sqrt(sum(block[key] ** 2 for key in largest))
    return {key: block[key] / norm for key in largest} if norm > 0.0 else {}


def likeness(one: Signature, other: Signature) -> float:
    """How much two signatures have in common, 0 to 1. A block that only one of them has counts half against it."""
    common = total = 0.0
    for name, weight in _WEIGHTS.items():
        first, second = one.get(name), other.get(name)
        if first and second:
            total += weight
            if len(first) > len(second):
                first, second = second, first
            common += weight * sum(value * second.get(key, 0.0) for key, value in first.items())
        elif first or second:
            total += weight / 2
    return common / total if total else 0.0


class Trouble:
    """One cluster: its signature, and what its requests did."""

    def __init__(self, number: int, ts: float) -> None:
        self.number = number
        self.requests = 0
        self.began_ts = self.newest_ts = ts
        self.example = ""
        self.centre: Signature = {}
        self.moments = Moments(MEMORY)

    def add(self, request: Traced, found: Profile, its: Signature) -> None:
        """Take a request in."""
        self.requests += 1
        self.newest_ts = max(self.newest_ts, request.ts)
        self.example = request.request
        self.moments.add(request, found)
        share = 1.0 / min(self.requests, MEMORY)
        centre = {}
        for name in _BLOCKS:
            old, new = self.centre.get(name, {}), its.get(name, {})
            mixed = {
                key: (1.0 - share) * old.get(key, 0.0) + share * new.get(key, 0.0)
                for key in dict.fromkeys((*old, *new))
            }
            if mixed:
                centre[name] = _unit(mixed)
        self.centre = centre

    def cluster(self, usual: Moments) -> Cluster:
        """What is known of it."""
        told = evidence(self.moments, usual)
        return Cluster(self.number, self.requests, self.began_ts, self.newest_ts, self.example, told)


class Troubles:
    """All clusters of a service.

    A request belongs to the cluster whose signature it has most in common with, if that is `ALIKE` at least; else it
    begins one. So a trouble that comes again has the number that it had: numbers are given once, and never again.

    Attributes:
        found: the clusters, in the order of their numbers.

    """

    def __init__(self) -> None:
        self.found: list[Trouble] = []
        self._given = 0

    def nearest(self, its: Signature) -> Trouble | None:
        """The cluster that such a request belongs to; None where it is the first of its kind."""
        best, most = None, ALIKE
        for each in self.found:
            if (alike := likeness(its, each.centre)) >= most:
                best, most = each, alike
        return best

    @property
    def next_number(self) -> int:
        """Of the next cluster that begins."""
        return self._given + 1

    def add(self, request: Traced, found: Profile, its: Signature) -> Trouble:
        """Take an outlying request in."""
        trouble = self.nearest(its)
        if trouble is None:
            self._given += 1
            trouble = Trouble(self._given, request.ts)
            self.found.append(trouble)
            if len(self.found) > MOST_CLUSTERS:
                others = self.found[:-1]
                few = min(min(each.requests, MEMORY) for each in others)
                given_up = min((each for each in others if each.requests <= 2 * few), key=lambda each: each.newest_ts)
                self.found.remove(given_up)
        trouble.add(request, found, its)
        return trouble

    def snapshot(self) -> dict[str, Any]:
        """A copy of the state as plain data."""
        return {
            "given": self._given,
            "found": [
                {
                    "number": each.number,
                    "requests": each.requests,
                    "began_ts": each.began_ts,
                    "newest_ts": each.newest_ts,
                    "example": each.example,
                    "centre": [
                        [name, [list(key) for key in block], list(block.values())]
                        for name, block in each.centre.items()
                    ],
                    "moments": each.moments.snapshot(),
                }
                for each in self.found
            ],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a state that `snapshot` gave. Raises `ValueError` naming what does not fit."""
        self._given, self.found = int(state["given"]), []
        for told in state["found"]:
            trouble = Trouble(int(told["number"]), float(told["began_ts"]))
            trouble.requests, trouble.newest_ts = int(told["requests"]), float(told["newest_ts"])
            trouble.example = str(told["example"])
            trouble.centre = {
                str(name): {tuple(key): float(value) for key, value in zip(keys, values, strict=True)}
                for name, keys, values in told["centre"]
            }
            trouble.moments.restore(told["moments"])
            self.found.append(trouble)
