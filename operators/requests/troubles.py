"""Clusters of outlying requests in a stream, with persistent numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from laggard.operators.requests.results import Cluster
from laggard.operators.requests.tries import ACCEPTS, LOCKS, PENDING, are_tries, is_failure, is_sleep
from laggard.operators.requests.usual import Moments, Profile, common, evidence
from laggard.operators.requests.work import WAITS, own_s, several_times

if TYPE_CHECKING:
    from laggard.operators.requests.results import Traced
    from laggard.operators.requests.usual import Key

MOST_CLUSTERS: Final = 64
"""The most clusters of a service. Beyond, the one with the fewest requests, and then the oldest, is forgotten."""

ALIKE: Final = 0.55
"""The similarity from which on signatures belong to the same fault."""

MEMORY: Final = 200
"""The number of requests of a cluster that its evidence is from; up to twice as many."""

_MOST_KEYS = 64
_WEIGHTS: Final = {"state": 0.2, "call": 0.2, "spent": 0.4, "did": 0.2}
_BLOCKS: Final = tuple(_WEIGHTS)
_NOTABLE: Final = 0.03  # the least share of the lost time in a signature
_UNUSUAL: Final = 7.0  # in spreads: a count of two for what normally occurs once
_LARGEST: Final = 5.0  # of log(1 + count): larger counts are equal
_NOTHING: Final = ("",)
_WHERE_DOES_NOT_MATTER: Final = frozenset({"BP"})  # preemption may happen anywhere
_BY_FOLDER: Final = frozenset({"BD"})  # requests that read different files may have the same fault

Signature = dict[str, dict[tuple[str, ...], float]]
"""The signature of a fault: a unit vector over things for each block; blocks without information are missing."""


def signature(found: Profile, usual: Moments, *, lost_s: float) -> Signature:
    """Return the signature of a request: its lost time and its excess of calls over normal requests.

    Three blocks have the lost time, from coarse to fine: by state, by state and system call, and by all parts of a
    thing. Each has the square roots of shares, so that the product of two is 1 if time was lost in the same way,
    however much it was. The fourth block has the excess of system calls; without these, that of entries into states. A
    request without any lost time or excess has the calls that it lacks instead. One without these has the signature of
    all such requests, so that each does not become a cluster of its own.

    Waits for answers are divided by what the others did on the critical path. A wait for a free worker is one fault,
    whatever the workers do. See `tries` for failing tries, and `work` for requests that do several times their usual
    work.
    """
    weight = max(usual.weight, 1.0)
    blocks: Signature = {name: {} for name in _BLOCKS}
    has_calls = any(key[0] == "ngram" for key in found)
    tried = _tried(found, usual, weight)
    for key, (count, time_s, _) in found.items():
        match key[0]:
            case "state":
                _add(blocks["state"], key[1:], time_s - usual.sums(key).time_s / weight, lost_s)
                if not has_calls:
                    _add_more(blocks["did"], key, count, usual)
            case "spent":
                excess_s = time_s - usual.sums(key).time_s / weight
                state, call, on, by, result = key[1:] if tried is None or not is_sleep(*key[1:3]) else tried
                call = "" if state in _WHERE_DOES_NOT_MATTER else call
                on = on.rpartition("/")[0] or on if state in _BY_FOLDER else on
                _add(blocks["call"], (state, call), excess_s, lost_s)
                by = "" if call in ACCEPTS else by
                what = (state, "", "", by, "") if state in _WHERE_DOES_NOT_MATTER else (state, call, on, by, result)
                _add(blocks["spent"], what, excess_s, lost_s)
            case "ngram" if len(key) < 4:
                _add_more(blocks["did"], key, count, usual)
    _look_through(blocks, found, usual)
    _work_first(blocks, found, usual, lost_s)
    for name in ("state", "call", "spent"):
        blocks[name] = {key: math.sqrt(each) for key, each in blocks[name].items() if each > _NOTABLE * lost_s}
    if not any(blocks.values()):
        missing = (key for key in usual.keys() if key[0] == "ngram" and len(key) == 2)  # noqa: SIM118 - no dictionary
        blocks["did"] = {("no", *key[1:]): 1.0 for key in missing if key not in found and common(key, usual)}
    if not any(blocks.values()):
        blocks["did"] = {_NOTHING: 1.0}
    return {name: _unit(block) for name, block in blocks.items() if block}


def _work_first(blocks: Signature, found: Profile, usual: Moments, lost_s: float) -> None:
    """Count waits for a CPU as work, as far as they are due to several times the usual work."""
    times_s, usual_s = {key[1]: each[1] for key, each in found.items() if key[0] == "state"}, usual.mean_s()
    if not several_times(times_s, usual_s, lost_s, repeats_calls=bool(blocks["did"])):
        return
    due = 1.0 - own_s(usual_s) / own_s(times_s)
    for name, work in (("state", ("RU",)), ("call", ("RU", "")), ("spent", ("RU", "", "", "", ""))):
        block = blocks[name]
        for key in [key for key in block if key[0] in _WHERE_DOES_NOT_MATTER]:
            block[work] = block.get(work, 0.0) + due * block[key]
            block[key] *= 1.0 - due


def _look_through(blocks: Signature, found: Profile, usual: Moments) -> None:
    """Divide waits for answers by what others did: a server that computes is not one that waits for a lock.

    A wait for a lock or for a free worker stays whole: this is the fault, whatever the others do.
    """
    weight = max(usual.weight, 1.0)
    did: dict[tuple[str, ...], float] = {}
    for key, (_, time_s, _) in found.items():
        if key[0] == "beyond":
            excess_s = time_s - usual.sums(key).time_s / weight
            did[key[1:3]] = did.get(key[1:3], 0.0) + max(excess_s, 0.0)
    waited_s = sum(each for key, each in blocks["state"].items() if key[0] in WAITS)
    did_s = sum(did.values())
    total_s = max(did_s, waited_s)
    for name in ("call", "spent") if did_s > 0.0 else ():
        block = blocks[name]
        for key in [key for key in block if key[0] in WAITS and not _stays_whole(key[1])]:
            excess_s = block[key]
            block[key] = excess_s * (1.0 - did_s / total_s)
            for what, time_s in did.items():
                block[*key, *what] = excess_s * time_s / total_s


def _stays_whole(call: str) -> bool:
    return call in LOCKS | ACCEPTS or call.startswith("futex")


def _tried(found: Profile, usual: Moments, weight: float) -> tuple[str, str, str, str, str] | None:
    """Return the failing tries of a request, in place of the sleeps between them; None without any.

    So its sleeps are not like those of a request that only sleeps.
    """
    tries: dict[tuple[str, str, str], float] = {}
    sleeps = 0.0
    for key, (count, _, _) in found.items():
        if key[0] == "spent":
            more = count - usual.sums(key).times / weight
            state, call, on, _, result = key[1:]
            if is_sleep(state, call):
                sleeps += more
            elif is_failure(call, result) or (result == PENDING and state == "RS"):
                tries[call, on, result] = tries.get((call, on, result), 0.0) + more
    those = [what for what, more in tries.items() if are_tries(what[1], more, sleeps)]
    if not those:
        return None
    call, on, result = max(those, key=lambda what: (tries[what], what))
    return "BS", call, on, "", result


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
    """Return the similarity of two signatures, 0 to 1. A block that only one of them has counts half."""
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
    """One cluster: its signature, and the profile of its requests."""

    def __init__(self, number: int, ts: float) -> None:
        self.number = number
        self.requests = 0
        self.began_ts = self.newest_ts = ts
        self.example = ""
        self.centre: Signature = {}
        self.moments = Moments(MEMORY)

    def add(self, request: Traced, found: Profile, its: Signature) -> None:
        """Learn a request."""
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
        """Return the cluster with its evidence."""
        found = evidence(self.moments, usual)
        return Cluster(self.number, self.requests, self.began_ts, self.newest_ts, self.example, found)


class Troubles:
    """All clusters of a service.

    A request belongs to the cluster with the most similar signature, if the similarity is at least `ALIKE`. Otherwise
    it begins a new one. So a recurring fault keeps its number. Numbers are never reused.

    Attributes:
        found: the clusters, in the order of their numbers.

    """

    def __init__(self) -> None:
        self.found: list[Trouble] = []
        self._given = 0

    def nearest(self, its: Signature) -> Trouble | None:
        """Return the cluster of a signature; None if it is the first of its kind."""
        best, most = None, ALIKE
        for each in self.found:
            if (alike := likeness(its, each.centre)) >= most:
                best, most = each, alike
        return best

    @property
    def next_number(self) -> int:
        """The number of the next new cluster."""
        return self._given + 1

    def add(self, request: Traced, found: Profile, its: Signature) -> Trouble:
        """Learn an outlying request."""
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
        """Return a copy of the state as plain data."""
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
        """Restore a `snapshot`. Raises `ValueError` that names the part that does not fit."""
        self._given, self.found = int(state["given"]), []
        for fields in state["found"]:
            trouble = Trouble(int(fields["number"]), float(fields["began_ts"]))
            trouble.requests, trouble.newest_ts = int(fields["requests"]), float(fields["newest_ts"])
            trouble.example = str(fields["example"])
            trouble.centre = {
                str(name): {tuple(key): float(value) for key, value in zip(keys, values, strict=True)}
                for name, keys, values in fields["centre"]
            }
            trouble.moments.restore(fields["moments"])
            self.found.append(trouble)
