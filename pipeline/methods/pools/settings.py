"""The settings of pools and of the operator `covariance`."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from laggard.pipeline.settings.checks import check_key
from laggard.pipeline.settings.declaring import Choice, Count, Flag, Mapped, Rate, Section, Words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from laggard.pipeline.settings.declaring import Setting

_SHORTEST_WINDOW, _LONGEST_WINDOW = 4, 10_000

_NAME_BYTES = 15  # the part of a process name that the kernel keeps


def _check_members(pools: Mapping[str, object]) -> None:
    for pool, value in pools.items():
        patterns = value.split() if isinstance(value, str) else []
        if not patterns or not all(all(each.partition("/")[::2]) for each in patterns if "/" in each):
            raise ValueError(f"for {pool!r} patterns HOST/PROCESS, or HOST for hosts, separated by blanks")
        check_key(pool, "pools")


def _check_threads(names: Sequence[str]) -> None:
    for name in names:
        if "/" in name:
            raise ValueError(f"names of processes, not paths; {name!r} is one")
        if len(name.encode()) > _NAME_BYTES and not set(name) & set("*?["):
            raise ValueError(
                f"names of at most {_NAME_BYTES} bytes, which is what the kernel keeps; {name!r} is longer"
            )


def _check_windows(lengths: Sequence[str]) -> None:
    expected = f"lengths in ticks from {_SHORTEST_WINDOW} to {_LONGEST_WINDOW:,}, each longer than the one before"
    if not lengths or not all(each.isdecimal() for each in lengths):
        raise ValueError(expected)
    found = [_SHORTEST_WINDOW - 1, *map(int, lengths), _LONGEST_WINDOW + 1]
    if any(one >= other for one, other in pairwise(found)):
        raise ValueError(expected)


class PoolsSettings(Section, table="pools"):
    """The settings of pools of processes and hosts."""

    threads = Words(
        "",
        "Processes whose threads the agent compares: their names or patterns such as `java*`. Threads with the same "
        "name except for a number at the end form a pool.",
        check=_check_threads,
    )
    discover = Flag(
        "true",
        "Whether the agent finds pools of prefork workers: processes that one parent forked, and that still run its "
        "program. With `agent.command_lines`, processes that set different titles are different pools.",
    )
    minimum = Count(
        "3",
        "The least number of members of a pool that the agent publishes. Each must exist for 10 s.",
        minimum="2",
        maximum="1000",
    )
    members = Mapped(
        "",
        "Pools of processes or of hosts: patterns `HOST/PROCESS` such as `web-*/gunicorn`, or `HOST` alone, "
        "separated by spaces. Members should do the same work. Workers read this setting.",
        check=_check_members,
    )


class CovarianceSettings(Section, table="covariance"):
    """The operator `covariance`."""

    method: Setting[Literal["adaptive", "published"]] = Choice(
        "adaptive",
        "How members of a pool are compared: `published`, as in the paper behind this operator, or `adaptive`, which "
        "also finds short deviations, and says how members deviate.",
        choices=("adaptive", "published"),
    )
    windows = Words(
        "12,48,192",
        "The windows of the comparison in ticks, the shortest first. Another window is the life of a member.",
        check=_check_windows,
    )
    false_alarms = Rate(
        "1/day", "The false-alarm budget of a pool for this operator.", minimum="1/month", maximum="10/minute"
    )
    replicates = Count(
        "1000",
        "The bootstrap samples for the p-values in a report on a pool. 0 for none.",
        minimum="0",
        maximum="100000",
    )
