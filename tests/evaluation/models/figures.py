"""Section 4's figures of S2 on the seeded queueing model: 400 intervals of 400 to 4,000 users, 7,514 metrics.

    python -m tests.evaluation.models.figures                     # the tables, half an hour of CPU time
    python -m tests.evaluation.models.figures --most 100          # no more candidates than that
    python -m tests.evaluation.models.figures --blind             # without the metrics that count who waits
    python -m tests.evaluation.models.figures --out FOLDER        # and PNGs of them

See `tests/evaluation/README.md` for what came out.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from laggard.operators.regression.climb import FOLDS, folds_of
from laggard.operators.regression.correlation import best, correlations, p_values
from laggard.operators.regression.kinds import climb_kind, cross_predicted
from laggard.operators.regression.models import KINDS, Kind
from laggard.operators.regression.selection import Choice, climb
from tests.evaluation.models.queueing import RANDOM, Recording, record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

RT, THR = "response_time_mean_s", "throughput_per_s"
R_BOUNDS: Final = (0.5, 0.6, 0.7, 0.8, 0.9)
P_BOUNDS: Final = (0.1, 1e-10, 1e-50, 1e-100, 1e-150)
CANDIDATES: Final = (5, 10, 25, 50, 100, 200, 400, 800)
GAIN: Final = 0.01
MOST: Final = 20


class Row(NamedTuple):
    """A kind's model of a number of candidates.

    Attributes:
        candidates: N_can.
        kind: of model.
        r2: cross-validated.
        terms: how many metrics were chosen.
        phase_1_s: of CPU time.
        phase_2_s: of CPU time.

    """

    candidates: int
    kind: Kind
    r2: float
    terms: int
    phase_1_s: float
    phase_2_s: float


def blind(recording: Recording) -> Recording:
    """The same without the metrics that count who waits, of which one alone tells the response time."""
    seen = [
        at
        for at, metric in enumerate(recording.ids)
        if recording.traits[metric].role != "wait" and ":udp_active" not in metric
    ]
    return replace(recording, ids=tuple(recording.ids[at] for at in seen), values=recording.values[:, seen].copy())


def counts(recording: Recording, performance: str) -> NDArray[np.int64]:
    """How many metrics pass a bound of |r| and one of p, shape (bounds of p, bounds of r): Figure 5b."""
    r = np.nan_to_num(np.abs(correlations(recording.values, recording.performance[performance])))
    p = p_values(r, len(recording.values))
    return np.array([[int(((r >= low) & (p <= high)).sum()) for low in R_BOUNDS] for high in P_BOUNDS])


def climbed(kind: Kind, values: NDArray[np.float64], target: NDArray[np.float64], columns: NDArray[np.intp]) -> Choice:
    """Phase 2."""
    if kind == "linear":
        return climb(values, target, columns, minimum_gain=GAIN, most=MOST)
    return climb_kind(kind, values, target, columns, minimum_gain=GAIN, most=MOST)


def whole(kind: Kind, values: NDArray[np.float64], target: NDArray[np.float64]) -> float:
    """The cross-validated R^2 of a model with all of these metrics, without phase 2."""
    if kind == "linear":
        fold, predicted = folds_of(len(target)), np.empty(len(target))
        design = np.column_stack((np.ones(len(target)), values / np.abs(values).max(axis=0)))
        for number in range(FOLDS):
            train = fold != number
            b = np.linalg.lstsq(design[train], target[train], rcond=None)[0]
            predicted[~train] = design[~train] @ b
    else:
        predicted = cross_predicted(kind, values, target)
    return 1.0 - float(((target - predicted) ** 2).sum() / ((target - target.mean()) ** 2).sum())


def phases(recording: Recording, kind: Kind, candidates: int) -> Row:
    """Both phases of a model of the mean response time: Figures 5e and 5f."""
    target = recording.performance[RT]
    begin = time.process_time()
    columns = best(correlations(recording.values, target), candidates)
    middle = time.process_time()
    choice = climbed(kind, recording.values, target, columns)
    return Row(candidates, kind, choice.r2, len(choice.columns), middle - begin, time.process_time() - middle)


def table(heads: Sequence[object], rows: Sequence[Sequence[object]]) -> str:
    """In Markdown."""
    return "\n".join(f"| {' | '.join(map(str, each))} |" for each in (heads, ["---"] * len(heads), *rows))


def draw(folder: Path, passed: NDArray[np.int64], steps: Sequence[float], rows: Sequence[Row]) -> None:
    """PNGs of Figures 5b, 5c, 5e and 5f."""
    import matplotlib as mpl  # noqa: PLC0415

    mpl.use("agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    figure, places = plt.subplots(2, 2, figsize=(11, 8), layout="constrained")
    counted, growing, accuracy, taken = np.asarray(places).ravel().tolist()
    for bound, line in zip(P_BOUNDS, passed, strict=True):
        counted.plot(R_BOUNDS, line, marker="o", label=f"p ≤ {bound:g}")
    growing.bar([str(1 + at) for at in range(len(steps))], steps, width=0.4)
    growing.margins(x=0.5)
    by_kind = {kind: mine for kind in KINDS if (mine := [row for row in rows if row.kind == kind])}
    for kind, mine in by_kind.items():
        accuracy.plot([row.candidates for row in mine], [row.r2 for row in mine], marker="o", label=kind)
        taken.plot([row.candidates for row in mine], [row.phase_2_s for row in mine], marker="o", label=kind)
    linear = by_kind["linear"]
    taken.plot(
        [row.candidates for row in linear], [row.phase_1_s for row in linear], marker="s", ls=":", label="phase 1"
    )

    def name(axes: Axes, title: str, x: str, y: str) -> None:
        axes.set(title=title, xlabel=x, ylabel=y)
        axes.grid(alpha=0.3)

    name(counted, "5b: metrics that move with the throughput", "least |r|", "metrics")
    name(growing, "5c: linear model of the response time", "metrics in it", "R², cross-validated")
    name(accuracy, "5e: response time", "candidates", "R², cross-validated")
    name(taken, "5f: time of phase 2", "candidates", "CPU time in s")
    for axes in (growing, accuracy):
        axes.set_ylim(0.0, 1.05)
    for axes in (accuracy, taken):
        axes.set_xscale("log")
        axes.set_xticks(tried := [row.candidates for row in linear], labels=list(map(str, tried)))
        axes.minorticks_off()
    taken.set_yscale("log")
    for axes in (counted, accuracy, taken):
        axes.legend()
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / "section-4.png", dpi=110)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables, as they come."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--most", type=int, default=800, help="candidates")
    options.add_argument("--most-boosting", type=int, default=100, help="the same for boosting, which takes longest")
    options.add_argument("--blind", action="store_true", help="without the metrics that count who waits")
    options.add_argument("--out", type=Path, metavar="FOLDER", help="for the PNG")
    chosen = options.parse_args(arguments)
    recording = record(RANDOM, chosen.seed)
    recording = blind(recording) if chosen.blind else recording
    target = recording.performance[RT]

    passed = counts(recording, THR)
    print("Figure 5b: metrics that move with the throughput, by bounds\n")
    lines = [[f"p <= {bound:g}", *line] for bound, line in zip(P_BOUNDS, passed.tolist(), strict=True)]
    print(table(["", *(f"abs(r) >= {bound}" for bound in R_BOUNDS)], lines), flush=True)

    columns = best(correlations(recording.values, target), 100)
    choice = climbed("linear", recording.values, target, columns)
    steps = [
        climb(recording.values, target, columns, minimum_gain=GAIN, most=1 + at).r2 for at in range(len(choice.columns))
    ]
    print("\nFigure 5c: the linear model of the mean response time, as it grows\n")
    grown = [[1 + at, f"`{recording.ids[column]}`", f"{steps[at]:.3f}"] for at, column in enumerate(choice.columns)]
    print(table(["metrics", "the last one", "R2"], grown), flush=True)

    print("\nFigures 5e and 5f: R2, metrics, and CPU time of both phases by candidates and kind\n")
    rows = []
    print(table(["candidates", "kind", "R2", "metrics", "phase 1, ms", "phase 2, ms"], []))
    for kind in KINDS:
        for candidates in CANDIDATES:
            if candidates <= (chosen.most_boosting if kind == "boosting" else chosen.most):
                rows.append(row := phases(recording, kind, candidates))
                print(
                    f"| {candidates} | {kind} | {row.r2:.3f} | {row.terms} | {1e3 * row.phase_1_s:.0f} "
                    f"| {1e3 * row.phase_2_s:.0f} |",
                    flush=True,
                )

    print("\nFigure 5d: R2 of 100 candidates, all of them in the model, and those that phase 2 chooses\n")
    chosen_r2 = {row.kind: row.r2 for row in rows if row.candidates == 100}
    compared = [
        [kind, f"{whole(kind, recording.values[:, columns], target):.3f}", f"{chosen_r2[kind]:.3f}"]
        for kind in KINDS
        if kind in chosen_r2
    ]
    print(table(["kind", "without phase 2", "with it"], compared), flush=True)
    if chosen.out is not None:
        draw(chosen.out, passed, steps, rows)


if __name__ == "__main__":
    main()
