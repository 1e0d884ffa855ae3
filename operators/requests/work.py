"""Whether a request does several times its usual work: that comes before whoever takes the CPU meanwhile.

A wait for a CPU grows with the work that needs one. Where the work is several times the usual, the same share of the
wait is due to it: with its usual work, the request would have waited that much less.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

RUNS: Final = ("RU", "RS")
"""The states in which a thread has a CPU."""

WAITS: Final = frozenset({"BT", "BN", "BF"})
"""The states in which a thread waits for the work of another one, which the critical path shows."""

_TIMES: Final = 3.0
_SHARE: Final = 0.2
_TIMES_WITH_CALLS: Final = 2.0
_SHARE_WITH_CALLS: Final = 0.05


def own_s(times_s: Mapping[str, float]) -> float:
    """Return the seconds with a CPU, from the seconds in each state.

    Example:
        >>> own_s({"RU": 0.5, "RS": 0.25, "BP": 9.0})
        0.75

    """
    return math.fsum(times_s.get(state, 0.0) for state in RUNS)


def several_times(
    times_s: Mapping[str, float], usual_s: Mapping[str, float], lost_s: float, *, repeats_calls: bool
) -> bool:
    """Return whether requests do several times their usual work.

    A busy machine makes the same work up to twice as long: caches and cores are shared. It makes no system calls more
    frequent, so less is enough where some are.

    Parameters:
        times_s: the seconds in each state.
        usual_s: those of normal requests.
        lost_s: the seconds that these requests take longer.
        repeats_calls: whether some system calls are much more frequent than usual.

    Example:
        >>> usual_s, recompiles_s = {"RU": 0.004, "BP": 0.003}, {"RU": 0.052, "BP": 0.15}
        >>> several_times(recompiles_s, usual_s, 0.195, repeats_calls=False)
        True
        >>> several_times({"RU": 0.007, "BP": 0.15}, usual_s, 0.15, repeats_calls=False)
        False

    """
    own, usual = own_s(times_s), own_s(usual_s)
    times, share = (_TIMES_WITH_CALLS, _SHARE_WITH_CALLS) if repeats_calls else (_TIMES, _SHARE)
    return usual > 0.0 and own >= times * usual and own - usual >= share * lost_s
