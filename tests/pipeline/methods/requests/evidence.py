"""Evidence as the operator gives it, made by hand: figures are in milliseconds, as they are told."""

from __future__ import annotations

import math
from typing import NamedTuple

from laggard.operators.requests.results import Difference, Evidence, Named

FIRM = 20.0


class Spent(NamedTuple):
    """What some time was spent on, and what is usual of it."""

    ms: float
    usual_ms: float = 0.0
    state: str = "BT"
    syscall: str = ""
    on: str = ""
    by: str = ""
    result: str = ""
    pid: int = 0
    times: float = 1.0
    usual_times: float = 0.0
    share: float = 1.0
    statistic: float = FIRM


class Beyond(NamedTuple):
    """What another thread did on the critical path, and what is usual of it."""

    ms: float
    usual_ms: float = 0.0
    state: str = "RU"
    syscall: str = ""
    who: str = "mysqld"
    statistic: float = FIRM


class Repeated(NamedTuple):
    """System calls in a row, and what is usual of them."""

    what: tuple[str, ...]
    times: float
    usual_times: float = 0.0
    statistic: float = FIRM
    share: float = 1.0


def evidence(
    ms: float,
    usual_ms: float = math.nan,
    *found: Spent | Beyond | Repeated,
    states: dict[str, tuple[float, float]] | None = None,
    requests: int = 1,
    syscalls: tuple[float, float] = (247.0, 247.0),
    explained: bool = True,
    named: Named | None = None,
) -> Evidence:
    """The evidence of requests that take `ms`: their states are those that are given and, else, user mode."""
    spent = [each for each in found if isinstance(each, Spent)]
    times, usual = dict.fromkeys(("RU", "RS"), 0.0), dict.fromkeys(("RU", "RS"), 0.0)
    for each in spent:
        times[each.state] = times.get(each.state, 0.0) + each.ms
        usual[each.state] = usual.get(each.state, 0.0) + each.usual_ms
    for state, (now, before) in (states or {}).items():
        times[state], usual[state] = now, before
    times["RU"] += max(ms - sum(times.values()), 0.0)
    if not math.isnan(usual_ms):
        usual["RU"] += max(usual_ms - sum(usual.values()), 0.0)
    differences = [
        Difference(
            "spent",
            (each.state, each.syscall, each.on, each.by, each.result),
            each.times,
            each.usual_times,
            each.ms / 1e3,
            each.usual_ms / 1e3,
            each.share,
            0.0,
            each.statistic,
            each.pid,
        )
        if isinstance(each, Spent)
        else Difference(
            "beyond",
            (each.state, each.syscall, each.who),
            1.0,
            1.0,
            each.ms / 1e3,
            each.usual_ms / 1e3,
            1.0,
            1.0,
            each.statistic,
        )
        if isinstance(each, Beyond)
        else Difference(
            "ngram", each.what, each.times, each.usual_times, math.nan, math.nan, each.share, 0.0, each.statistic
        )
        for each in found
    ]
    differences += [
        Difference("state", (state,), 1.0, 1.0, now / 1e3, usual[state] / 1e3, 1.0, 1.0, FIRM)
        for state, now in times.items()
    ]
    return Evidence(
        requests,
        ms / 1e3,
        usual_ms / 1e3,
        {state: now / 1e3 for state, now in times.items()},
        {state: before / 1e3 for state, before in usual.items()},
        dict.fromkeys(times, 1.0),
        dict.fromkeys(times, 1.0),
        *syscalls,
        tuple(differences),
        explained,
        named,
    )
