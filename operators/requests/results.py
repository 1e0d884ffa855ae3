"""What is known of a request, and what the operator `requests` answers to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

EvidenceKind = Literal["state", "ngram", "spent"]


class Use(NamedTuple):
    """One thing that a request's time was spent on.

    Attributes:
        what: state, system call, object, by whom, result: the parts that make it the same thing in another request.
        pid: the process of whom; 0 where that is not known.
        times: how often.
        time_s: for how long, in seconds.

    """

    what: tuple[str, str, str, str, str]
    pid: int
    times: int
    time_s: float


@dataclass(frozen=True, slots=True)
class Traced:
    """One traced request (section III.B).

    Attributes:
        ts: when it began, seconds since the Unix epoch.
        request: its id.
        duration_s: how long it took.
        counts: how often each state was entered, by the state's name.
        times_s: how long it was in each state; they sum to the duration.
        syscalls: its system calls, in order.
        uses: what its time was spent on; empty where that is not known.

    """

    ts: float
    request: str
    duration_s: float
    counts: Mapping[str, float]
    times_s: Mapping[str, float]
    syscalls: Sequence[str]
    uses: Sequence[Use] = ()


@dataclass(frozen=True, slots=True)
class Difference:
    """What sets requests apart from normal ones, in one respect.

    Attributes:
        kind: what it is about: a state, an n-gram of system calls, or something that time was spent on.
        what: the state; the system calls of the n-gram; or the parts of `Use.what`.
        count: how often it is in one of these requests, on average.
        usual_count: how often in a normal request.
        time_s: how long it takes in one of these requests, on average, in seconds; NaN for n-grams.
        usual_time_s: how long in a normal request.
        share: of these requests that have it at all, 0 to 1.
        usual_share: of normal requests.
        statistic: by which it is ranked: differences in units of the normal spread, signed: below 0 there is less of it
            than usual. About 3 and less could be chance.
        pid: the process that is to blame in the newest of these requests; 0 where there is none.

    """

    kind: EvidenceKind
    what: tuple[str, ...]
    count: float
    usual_count: float
    time_s: float
    usual_time_s: float
    share: float
    usual_share: float
    statistic: float
    pid: int = 0


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of some requests that are alike, or of one, beside normal ones.

    Attributes:
        requests: how many these are.
        duration_s: their mean duration in seconds.
        usual_duration_s: that of normal requests; NaN while none is known.
        times_s: mean seconds in each state.
        usual_s: mean seconds in each state of normal requests.
        counts: mean number of times each state was entered.
        usual_counts: that of normal requests.
        syscalls: mean number of system calls.
        usual_syscalls: that of normal requests.
        differences: what sets them apart, worst first: by what it takes of their time and by its statistic.
        explained: whether any of these is beyond chance: if not, nothing but the duration sets them apart.

    """

    requests: int
    duration_s: float
    usual_duration_s: float
    times_s: Mapping[str, float]
    usual_s: Mapping[str, float]
    counts: Mapping[str, float]
    usual_counts: Mapping[str, float]
    syscalls: float
    usual_syscalls: float
    differences: tuple[Difference, ...]
    explained: bool


@dataclass(frozen=True, slots=True)
class Cluster:
    """Outlying requests that are alike (section III.D), under a name that stays.

    Attributes:
        number: its identity: the same trouble has the same one tomorrow.
        requests: how many there were of it so far.
        began_ts: when its first request began, seconds since the Unix epoch.
        newest_ts: when its newest did.
        example: the id of its newest request.
        evidence: what sets it apart.

    """

    number: int
    requests: int
    began_ts: float
    newest_ts: float
    example: str
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Judged:
    """How unusual a request is.

    Attributes:
        score: above 1 it is an outlier: its distance from the nearest request in a dense region, in units of eps.
        odd: whether it is one not by the time it spent, but by what it did: it may be fast.
        cluster: the number of its cluster; 0 where it is normal.
        evidence: of this request alone; None where it is normal.
        usual_s: mean seconds in each state of normal requests; empty for one of these.
        eps_s: within which requests are neighbours, in seconds.
        young: whether too few requests have been seen for this to be relied on.
        vector: what the operator keeps of it; of no use to others.

    """

    score: float
    odd: bool
    cluster: int
    evidence: Evidence | None
    usual_s: Mapping[str, float]
    eps_s: float
    young: bool
    vector: object = field(default=None, repr=False, compare=False)

    @property
    def outlier(self) -> bool:
        """Whether it is out of line."""
        return self.score > 1.0
