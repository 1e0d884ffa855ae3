"""Figures 3, 4 and 6 of S4, drawn from the recording that its authors published."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from laggard.operators.requests.isomap import picture, threshold
from tests.evaluation.requests.published import EYE_MS
from tests.evaluation.requests.published_data import STATES

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from tests.evaluation.requests.published import Outcome
    from tests.evaluation.requests.published_data import Recording

SHOWN: Final = {
    "system calls, BoW": "system call counts",
    "states, BoW": "state counts",
    "states, duration": "state durations",
}
COLOURS: Final = ("tab:gray", "tab:blue", "tab:orange", "tab:green", "tab:red", "tab:purple")


def draw(recording: Recording, found: Outcome, folder: Path) -> list[Path]:
    """All three, as PNG files in a folder, which is made where it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    figures = {
        "figure_3.png": durations(recording, found),
        "figure_4.png": counts(recording, found),
        "figure_6.png": plane(recording, found),
    }
    for name, figure in figures.items():
        FigureCanvasAgg(figure).print_png(folder / name)
    return [folder / name for name in figures]


def durations(recording: Recording, found: Outcome) -> Figure:
    """Figure 3: how long outlying and normal requests take, by what they are compared by."""
    figure = Figure(figsize=(14, 4), layout="constrained")
    every = recording.duration_ms
    bins = np.geomspace(max(every.min(), 1e-3), every.max() * 1.01, 60)
    for axes, (name, title) in zip(figure.subplots(1, len(SHOWN), sharey=True), SHOWN.items(), strict=True):
        outlying = found.outlying[name]
        for mine, label, colour in ((~outlying, "normal", "tab:gray"), (outlying, "outlying", "tab:red")):
            if mine.any():
                shares = np.full(int(mine.sum()), 100.0 / mine.sum())
                axes.hist(every[mine], bins, weights=shares, alpha=0.6, color=colour, label=f"{label} ({mine.sum():,})")
        axes.set(title=title, xlabel="duration in ms", xscale="log")
        axes.legend()
    figure.axes[0].set_ylabel("% of the requests of each kind")
    return figure


def counts(recording: Recording, found: Outcome) -> Figure:
    """Figure 4: how often states are entered in the requests of each cluster; the lines are one standard deviation."""
    clusters = found.published.clusters
    shown = np.flatnonzero(recording.counts.any(axis=0))
    figure = Figure(figsize=(9, 5), layout="constrained")
    axes = figure.subplots()
    number = int(clusters.max(initial=0)) + 1
    for cluster in range(number):
        mine = recording.counts[clusters == cluster][:, shown]
        if len(mine):
            axes.barh(
                np.arange(len(shown)) + 0.8 * (cluster - (number - 1) / 2) / number,
                mine.mean(axis=0),
                0.8 / number,
                xerr=mine.std(axis=0),
                color=COLOURS[cluster % len(COLOURS)],
                label=f"cluster {cluster} ({len(mine):,})" if cluster else f"normal ({len(mine):,})",
            )
    axes.set(xlabel="mean number of times that a state is entered", xscale="log", xlim=(0.1, None))
    axes.set_yticks(np.arange(len(shown)), [STATES[each] for each in shown])
    axes.invert_yaxis()
    axes.legend()
    return figure


def plane(recording: Recording, found: Outcome) -> Figure:
    """Figure 6: durations of states on a plane, by Isomap; and the threshold that is drawn from it."""
    outlying = found.published.clusters > 0
    drawn = picture(recording.times_ms, outlying)
    longest = drawn.requests[recording.duration_ms[drawn.requests].argmax()]
    places = drawn.places * np.sign(drawn.places[drawn.requests == longest][0])
    # From the lower left corner of most, for logarithmic axes.
    places = places - np.quantile(places, 0.005, axis=0) + 10.0
    inside = (places > 1.0).all(axis=1)
    figure = Figure(figsize=(11, 5), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    mine = recording.duration_ms[drawn.requests]
    norm = LogNorm(max(mine.min(), 1e-3), mine.max())
    for out, marker, label in ((False, "o", "normal"), (True, "^", "outlying")):
        shown = inside & (outlying[drawn.requests] == out)
        points = left.scatter(
            *places[shown].T, c=mine[shown], s=14, marker=marker, norm=norm, label=label, cmap="turbo"
        )
    left.set(xscale="log", yscale="log", xlabel="first axis, ms", ylabel="second axis, ms")
    left.set_title(f"{inside.sum():,} of {len(inside):,} drawn requests")
    left.legend()
    figure.colorbar(points, ax=left, label="duration in ms")
    _wrong(right, recording.duration_ms, outlying)
    return figure


def _wrong(axes, durations_ms: NDArray[np.float64], outlying: NDArray[np.bool_]) -> None:
    cut = threshold(durations_ms, outlying)
    cuts = np.linspace(150.0, 600.0, 451)
    missed = [np.count_nonzero(outlying & (durations_ms <= each)) for each in cuts]
    false = [np.count_nonzero(~outlying & (durations_ms > each)) for each in cuts]
    axes.plot(cuts, missed, label="outlying below", color="tab:red")
    axes.plot(cuts, false, label="normal above", color="tab:gray")
    axes.axvline(EYE_MS, linestyle=":", color="black", label=f"{EYE_MS:.0f} ms, by eye")
    if np.isfinite(cut):
        axes.axvline(cut, color="black", label=f"{cut:.0f} ms, by the rule")
    axes.set(xlabel="threshold in ms", ylabel="requests", title="called wrongly by a threshold")
    axes.set_yscale("symlog")
    axes.set_ylim(0.0)
    axes.legend()
