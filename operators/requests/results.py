"""Traced requests, and the results of the operator `requests`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

EvidenceKind = Literal["state", "ngram", "spent", "beyond"]


class Use(NamedTuple):
    """A thing that a request spent time on.

    Attributes:
        what: state, system call, object, cause and result: the parts that identify it across requests.
        pid: the process that caused it; 0 if unknown.
        times: the number of times.
        time_s: the total time in seconds.

    """

    what: tuple[str, str, str, str, str]
    pid: int
    times: int
    time_s: float


@dataclass(frozen=True, slots=True)
class Traced:
    """One traced request (section III.B).

    Attributes:
        ts: its begin, seconds since the Unix epoch.
        request: its id.
        duration_s: its duration in seconds.
        counts: the number of entries into each state, by the name of the state.
        times_s: the time in each state, in seconds; the times sum to the duration.
        syscalls: its system calls, in order.
        uses: the things that it spent time on; empty if unknown.
        name: its name, such as the page or the route, without varying parts; empty if unknown.
        beyond: the seconds of its critical path in other threads, by state, system call and name of the thread: the
            work and the waits of those that it waited for.

    """

    ts: float
    request: str
    duration_s: float
    counts: Mapping[str, float]
    times_s: Mapping[str, float]
    syscalls: Sequence[str]
    uses: Sequence[Use] = ()
    name: str = ""
    beyond: Mapping[tuple[str, str, str], float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference of some requests from normal ones.

    Attributes:
        kind: whether it is a state, an n-gram of system calls, a thing that time was spent on, or what another thread
            did on the critical path.
        what: the state; the system calls of the n-gram; the parts of `Use.what`; or a key of `Traced.beyond`.
        count: its mean count in these requests.
        usual_count: its mean count in normal requests.
        time_s: its mean time in these requests, in seconds; NaN for n-grams.
        usual_time_s: its mean time in normal requests, likewise.
        share: the share of these requests that have it, 0 to 1.
        usual_share: the share of normal requests that have it.
        statistic: the difference in units of the normal spread, by which it is ranked; negative if there is less of it
            than normal. A magnitude of up to about 3 may be chance.
        pid: the process that caused it in the newest of these requests; 0 if there is none.

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


class Named(NamedTuple):
    """A name that most of some requests have, and few normal ones.

    Attributes:
        name: the name.
        requests: the number of these requests with it.
        of: the number of these requests with any name.
        normal: the number of normal requests with it.
        of_normal: the number of normal requests with any name.

    """

    name: str
    requests: int
    of: int
    normal: int
    of_normal: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """A comparison of one request, or of similar ones, with normal requests.

    Attributes:
        requests: the number of these requests.
        duration_s: their mean duration in seconds.
        usual_duration_s: that of normal requests; NaN while there is none.
        times_s: the mean seconds in each state.
        usual_s: those of normal requests.
        counts: the mean number of entries into each state.
        usual_counts: those of normal requests.
        syscalls: the mean number of system calls.
        usual_syscalls: that of normal requests.
        differences: the differences, worst first: by their share of the lost time and by their statistic.
        explained: whether any of them is beyond chance; otherwise only the duration differs.
        named: the name that distinguishes them; None without one.

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
    named: Named | None = None


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster of outlying requests (section III.D) with a persistent number.

    Attributes:
        number: its identity: the same fault has the same number tomorrow.
        requests: the number of its requests so far.
        began_ts: the begin of its first request, seconds since the Unix epoch.
        newest_ts: the begin of its newest request, likewise.
        example: the id of its newest request.
        evidence: its comparison with normal requests.

    """

    number: int
    requests: int
    began_ts: float
    newest_ts: float
    example: str
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class RequestScore:
    """The score of a request.

    Attributes:
        score: its distance from the nearest request in a dense region, in units of eps: above 1 it is an outlier.
        odd: whether it is an outlier by what it did, not by its times: it may be fast.
        cluster: the number of its cluster; 0 if it is normal.
        evidence: its comparison with normal requests; None if it is normal.
        usual_s: the mean seconds in each state of normal requests; empty if it is normal.
        eps_s: the radius of neighborhoods in seconds.
        young: whether there were too few requests for a reliable score.
        vector: the state that the operator keeps of it; private.

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
        """Whether it is an outlier."""
        return self.score > 1.0
