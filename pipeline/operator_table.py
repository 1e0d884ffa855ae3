"""All operators: the topic that each reads, and what it is for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from laggard.pipeline.core.topics import APPLICATIONS, COUNTERS, POOLS, REQUESTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laggard.pipeline.core.topics import Topic


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator that a worker can run.

    Attributes:
        topic: the topic that it reads.
        module: for one on frames of counters, the module in `pipeline/methods/` that builds it, in a function with the
            operator's name. `wiring` builds the others.
        ranks: whether it ranks processes. The first operator that does is asked what is slow.
        default: whether it always runs by default; `regression` does if there are applications.

    """

    topic: Topic
    module: str = ""
    ranks: bool = False
    default: bool = True


OPERATORS: Final[Mapping[str, Operator]] = {
    "gaussian": Operator(COUNTERS, "hosts.gaussian", ranks=True),
    "cpu": Operator(COUNTERS, "hosts.cpu", ranks=True),
    "saturation": Operator(COUNTERS, "saturation.method"),
    "river": Operator(COUNTERS, "hosts.river", ranks=True, default=False),
    "regression": Operator(APPLICATIONS, default=False),
    "covariance": Operator(POOLS),
    "requests": Operator(REQUESTS),
}
"""By name, in the order of the documentation and of the default."""

RANKING: Final = tuple(name for name, each in OPERATORS.items() if each.ranks)
"""The operators that rank processes."""
