"""The difference between the clocks of two hosts, by packets that both recorded.

No packet arrives before it was sent. So each packet in one direction bounds the difference from below, and each one in
the other direction from above. A line between the two sets of points is the difference and its drift. The error is the
distance by which the line can move without crossing a point. Sources: Duda, Harrus, Haddad and Bernard, *Estimating
global time in distributed systems* (ICDCS 1987). For LTTng: Poirier, Roy and Dagenais, *Accurate offline
synchronization of distributed traces using kernel-level events* (SIGOPS OSR 44/3, 2010).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from scipy.optimize import linprog

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_DRIFT: Final = 1e-3
"""Clocks of working machines drift by less: quartz by 1e-4, NTP corrects by 5e-4 at most."""

_LEAST_SPAN_NS: Final = 1_000_000_000
_LEAST_PACKETS: Final = 8
_BETTER: Final = 2.0


class Packets(NamedTuple):
    """The packets that one host recorded, by their ids; shape (n,) each.

    Attributes:
        sent: the ids of sent packets.
        sent_ns: their times, by the host's clock.
        received: the ids of received packets.
        received_ns: their times, by the host's clock.

    """

    sent: NDArray[np.int64]
    sent_ns: NDArray[np.int64]
    received: NDArray[np.int64]
    received_ns: NDArray[np.int64]


class Difference(NamedTuple):
    """The offset from one host's times to those of another.

    Attributes:
        at_ns: the time at which the offset is `offset_ns`, by the clock that is corrected.
        offset_ns: the offset in nanoseconds.
        drift: the growth of the offset, in nanoseconds per nanosecond.
        error_ns: the largest error while packets went both ways; infinite if they went one way only.
        packets: the number of packets that it is based on.

    """

    at_ns: int
    offset_ns: float
    drift: float
    error_ns: float
    packets: int

    def corrected(self, ts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the times by the other clock, in the same order."""
        ahead: NDArray[np.int64] = np.rint(self.offset_ns + self.drift * (ts - self.at_ns)).astype(np.int64)
        return ts + ahead


class Bounds(NamedTuple):
    """The bounds of the difference by the packets of one direction: lower or upper ones.

    Attributes:
        at: times by the clock that is corrected, shape (n,).
        ns: bounds in nanoseconds, shape (n,).

    """

    at: NDArray[np.int64]
    ns: NDArray[np.int64]


def difference(reference: Packets, other: Packets) -> Difference | None:
    """Return the difference of the other host's clock from the reference's; None without packets between them.

    A drift is estimated only from at least 8 packets each way over one second. It is used only if its line keeps more
    than twice the distance of a constant offset.
    """
    sent, received = _matched(reference.sent, reference.sent_ns, other.received, other.received_ns)
    least_at, least = received, sent - received
    sent, received = _matched(other.sent, other.sent_ns, reference.received, reference.received_ns)
    most_at, most = sent, received - sent
    packets = len(least) + len(most)
    if not packets:
        return None
    times = np.concatenate([least_at, most_at])
    at = int(times.min())
    if not len(least) or not len(most):
        bound = float(least.max()) if len(least) else float(most.min())
        return Difference(at, bound, 0.0, np.inf, packets)
    low, high = float(least.max()), float(most.min())
    constant = Difference(at, (low + high) / 2, 0.0, abs(high - low) / 2, packets)
    span = int(times.max()) - at
    enough = span >= _LEAST_SPAN_NS and min(len(least), len(most)) >= _LEAST_PACKETS
    drifting = _line(Bounds(least_at, least), Bounds(most_at, most), at, span) if enough else None
    if drifting is None:
        return constant
    margin = (high - low) / 2
    return drifting[0] if drifting[1] > _BETTER * max(margin, 0.0) else constant


def _matched(
    sent: NDArray[np.int64], sent_ns: NDArray[np.int64], received: NDArray[np.int64], received_ns: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the times at which packets were sent and received; those that either host recorded twice are left out."""
    first, first_at, first_times = np.unique(sent, return_index=True, return_counts=True)
    second, second_at, second_times = np.unique(received, return_index=True, return_counts=True)
    _, one, two = np.intersect1d(
        first[first_times == 1], second[second_times == 1], assume_unique=True, return_indices=True
    )
    return sent_ns[first_at[first_times == 1][one]], received_ns[second_at[second_times == 1][two]]


def _line(least: Bounds, most: Bounds, at: int, span: int) -> tuple[Difference, float] | None:
    """Return the line with the largest distance from all points, and that distance in nanoseconds."""
    # The unknowns: the offset at the middle, its change to either end, the distance. In microseconds.
    base = float(least.ns.max())

    def points(bounds: Bounds, *, upper: bool) -> NDArray[np.float64]:
        return _hull((bounds.at - at) / span * 2.0 - 1.0, (bounds.ns - base) / 1e3, upper=upper)

    lower, upper = points(least, upper=True), points(most, upper=False)
    matrix = np.concatenate(
        [
            np.column_stack([-np.ones(len(lower)), -lower[:, 0], np.ones(len(lower))]),
            np.column_stack([np.ones(len(upper)), upper[:, 0], np.ones(len(upper))]),
        ]
    )
    bounds = np.concatenate([-lower[:, 1], upper[:, 1]])
    slope = MAX_DRIFT * span / 2e3
    limits = [(None, None), (-slope, slope), (None, None)]
    found = linprog([0.0, 0.0, -1.0], matrix, bounds, bounds=limits)
    if found.status != 0 or found.x[2] <= 0:
        return None
    offset, change, margin = found.x
    error = float(margin)
    for end in (-1.0, 1.0):
        for sign in (-1.0, 1.0):
            # Without the distance: how far any line that crosses no point is from this one at the ends.
            furthest = linprog([sign, sign * end, 0.0], matrix, bounds, bounds=[*limits[:2], (0.0, 0.0)])
            if furthest.status == 0:
                error = max(error, abs(furthest.x[0] + end * furthest.x[1] - offset - end * change))
    drift = change * 2e3 / span
    packets = len(least.at) + len(most.at)
    return Difference(at, base + (offset - change) * 1e3, drift, error * 1e3, packets), float(margin) * 1e3


def _hull(x: NDArray[np.floating], y: NDArray[np.floating], *, upper: bool) -> NDArray[np.float64]:
    """Return the points that a line above (below) all of them can touch, shape (n, 2), by Andrew's monotone chain."""
    sign = 1.0 if upper else -1.0
    points = sorted(zip(x.tolist(), (sign * y).tolist(), strict=True))
    chain: list[tuple[float, float]] = []
    for point in points:
        while len(chain) >= 2 and _turn(chain[-2], chain[-1], point) >= 0:
            chain.pop()
        chain.append(point)
    return np.array(chain) * [1.0, sign]


def _turn(first: tuple[float, float], second: tuple[float, float], third: tuple[float, float]) -> float:
    """Return more than 0 for a turn to the left."""
    return (second[0] - first[0]) * (third[1] - first[1]) - (second[1] - first[1]) * (third[0] - first[0])
