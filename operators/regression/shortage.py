"""The shortage of each resource of a host by its gauges: pressure and queues.

A metric that moves with a response time shows a shortage only if the host agrees: work must wait for the resource. By
Little's law (L = X R; Little 1961), requests that take d seconds longer at X per second are X d more requests in the
system. Those that want a CPU are in its run queue, and pressure stall information counts the share of time with such
tasks (Documentation/accounting/psi.rst of Linux). So the queue of a short resource has a good part of these requests,
or the resource is waited for most of the time. If no resource is, the requests wait for something else: a lock, an
upstream, a pause.

Requests that no worker has accepted yet are in no queue of a host. So of several short resources the one with the least
idle time is shorter. A queue has u / (1 - u) requests if its server is used for the share u of the time (M/M/1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from laggard.operators.regression.traits import Traits

RISEN: Final = 2.0
"""A gauge has risen if it left its baseline by this number of its standard deviations ..."""

NOTICEABLE: Final = 0.25
"""... and by this share of its least value that means a shortage."""

QUEUED: Final = 0.2
"""The least share of the additional requests that wait for a short resource."""

SPARE: Final = 0.05
"""A share of idle time below this one counts as this one."""


def shortages(
    values: NDArray[np.float64], before: NDArray[np.float64], *, traits: Traits, more: float
) -> NDArray[np.float64]:
    """Return how short each resource of a host is, from 0 to 1.

    Args:
        values: the values in the slow time, shape (samples, metrics).
        before: the values before it, shape (earlier samples, metrics).
        traits: the traits of the metrics.
        more: the requests in the system beyond the usual number; NaN if unknown.

    Returns:
        The share of these requests that its queue explains, shape (resources,), by the numbers of `Traits.groups`. NaN
        if no gauge shows it: on hosts without any gauge, and for locks.

    Example:
        >>> import numpy as np
        >>> from laggard.operators.regression.models import Trait
        >>> from laggard.operators.regression.traits import Traits
        >>> traits = Traits(lambda name: Trait("cpu", "wait", 1, gauge="pressure", short=0.1), {})
        >>> traits.follow(["web-1:pressure", "db-1:pressure"])
        >>> before = np.array([[0.02, 0.3], [0.03, 0.2], [0.02, 0.3], [0.03, 0.2]])
        >>> found = shortages(np.array([[0.9, 0.25]]), before, traits=traits, more=4.0)
        >>> [(traits.resources[group], round(float(share), 2)) for group, share in enumerate(found)]
        [(('web-1', 'cpu'), 0.88), (('db-1', 'cpu'), 0.0)]

    """
    columns = traits.gauges
    groups = traits.groups[columns]
    gauged = {traits.resources[group][0] for group in groups[traits.kinds != "use"].tolist()}
    found = np.array([0.0 if host in gauged and name != "lock" else np.nan for host, name in traits.resources])
    if not len(columns) or not len(before):
        return found
    size = np.array([values[-1, at] if at >= 0 else 1.0 for at in traits.sizes.tolist()])
    size = np.maximum(np.nan_to_num(size, nan=1.0), 1.0)
    # Tasks that run are in the run queue of the CPUs, too: only those beyond the number of CPUs wait.
    running = np.where((traits.kinds == "queue") & (traits.sizes >= 0), size, 0.0)
    now, _ = _moments(np.maximum(values[:, columns] - running, 0.0))
    usual, spread = _moments(np.maximum(before[:, columns] - running, 0.0))
    rise = now - usual
    agree = (now >= traits.shorts) & (rise > np.maximum(RISEN * spread, NOTICEABLE * traits.shorts))
    due = np.clip(more, 0.0, size) if np.isfinite(more) else size
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.minimum(np.where(traits.kinds == "pressure", rise * size, rise) / due, 1.0)
    share = np.where((traits.kinds == "stops") | (due <= 0.0), 1.0, share)
    agree &= (share >= QUEUED) & (traits.kinds != "use")
    queued = agree & (traits.kinds != "stops")
    share = np.where(queued, share * _precedence(now, queued, traits)[groups], share)
    np.maximum.at(found, groups[agree], share[agree])
    return found


def _precedence(now: NDArray[np.float64], queued: NDArray[np.bool_], traits: Traits) -> NDArray[np.float64]:
    """Return the least idle time of the short resources over that of each resource; 1 where it is unknown."""
    groups, used = traits.groups[traits.gauges], traits.kinds == "use"
    idle = np.full(len(traits.resources), np.nan)
    np.fmin.at(idle, groups[used], np.maximum(1.0 - now[used], SPARE))
    least = np.fmin.reduce(idle[groups[queued]], initial=np.nan)
    return np.asarray(np.nan_to_num(least / idle, nan=1.0))


def _moments(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean and the standard deviation of each column without its NaN; NaN and 0 for a column of NaN."""
    there = np.isfinite(values)
    count = there.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(there, values, 0.0).sum(axis=0) / count
        variance = np.where(there, (values - mean) ** 2, 0.0).sum(axis=0) / np.maximum(count, 1)
    return mean, np.sqrt(variance)
