"""Rules that estimate eps, beside the 25 ms that S4's authors chose by hand: how near, and how steady."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from laggard.operators.requests.outliers import core_distances, estimated_eps, noise

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from tests.evaluation.requests.published_data import Recording

    Floats = NDArray[np.float64]

MINIMUM_POINTS: Final = 100
WINDOW: Final = 10_000
PARTS: Final = 5


def fence(points: Floats, minimum_points: int) -> float:
    """Tukey's outer fence of the logarithm of the core distances."""
    lower, upper = np.quantile(np.log(core_distances(points, minimum_points)), (0.25, 0.75))
    return float(np.exp(upper + 3.0 * (upper - lower)))


def knee(points: Floats, minimum_points: int) -> float:
    """The sorted core distances bend most there: the k-distance graph of Ester et al., by the rule of Satopaa et al."""
    distances = np.sort(core_distances(points, minimum_points))
    height = (distances - distances[0]) / (distances[-1] - distances[0])
    return float(distances[np.argmax(np.linspace(0.0, 1.0, len(distances)) - height)])


def by_hand(points: Floats, minimum_points: int) -> float:
    """What the authors chose, whatever the points are."""
    return 25.0


RULES: Final[dict[str, Callable[[Floats, int], float]]] = {
    "by hand": by_hand,
    "`estimated_eps`": estimated_eps,
    "outer fence alone": fence,
    "knee of the sorted distances": knee,
}


def table(recording: Recording) -> str:
    """eps of all requests, of parts drawn at random, and of as many consecutive ones as the operator remembers."""
    points = recording.times_ms
    window = min(WINDOW, len(points))
    chance = np.random.default_rng(1)
    order = np.argsort(recording.began_ns + recording.duration_ns, kind="stable")
    samples = {
        f"all {len(points):,}": [np.arange(len(points))],
        **{
            f"{size:,} at random": [np.sort(chance.choice(len(points), size, replace=False)) for _ in range(PARTS)]
            for size in (len(points) // 2, window, len(points) // 10)
        },
        f"{window:,} in a row": [
            order[begin : begin + window] for begin in np.linspace(0, len(order) - window, PARTS).astype(int).tolist()
        ],
    }
    outlying = noise(points, 25.0, MINIMUM_POINTS)
    lines = ["| of | rule | eps, ms | outliers | of the published there | others |", "|---" * 6 + "|"]
    for name, rows in samples.items():
        for rule, estimate in RULES.items():
            eps = [estimate(points[each], MINIMUM_POINTS) for each in rows]
            found = [noise(points[each], one, MINIMUM_POINTS) for each, one in zip(rows, eps, strict=True)]
            right = sum(int((mine & outlying[each]).sum()) for mine, each in zip(found, rows, strict=True))
            there, every = sum(int(outlying[each].sum()) for each in rows), sum(int(mine.sum()) for mine in found)
            span = f" ({min(eps):.1f} to {max(eps):.1f})" if len(eps) > 1 else ""
            lines.append(
                f"| {name} | {rule} | {np.median(eps):.1f}{span} | {every} | {right} of {there} | {every - right} |"
            )
    return "\n".join(lines)
