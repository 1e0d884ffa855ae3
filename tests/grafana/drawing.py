"""Panels drawn as Grafana would about draw them, from Prometheus's answers to their queries: for people who read."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl
from matplotlib.dates import AutoDateLocator, DateFormatter, date2num
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.axes import Axes

BACK, PANEL, TEXT, DIM, GRID = "#f4f5f5", "#ffffff", "#24292e", "#6e7681", "#e3e5e8"
COLORS: Final = {
    "green": "#3d8f3d",
    "orange": "#e07a1f",
    "red": "#d1293d",
    "blue": "#3274d9",
    "purple": "#8f3bb8",
    "yellow": "#e0b400",
    "dark-red": "#8a1220",
    "text": "#8e8e8e",
    "transparent": "#eef1f3",
}
LINES: Final = (
    *("#3d8f3d", "#e0b400", "#3274d9", "#e07a1f", "#d1293d", "#8f3bb8", "#1f9e9e", "#b8638a", "#7c7c2a", "#5b6ee1"),
)
COLUMN, ROW = 0.62, 0.42  # inches of a column and a row of the grid
HEAD = 0.27  # inches of a panel's title
SMALL = 7.5

WIDE: Final = {"feature": 2.1, "row": 1.7, "pool": 2.0, "member": 2.2, "instance": 1.4, "scope": 0.8, "cluster": 0.9}
"""Labels whose columns take more room than others."""


@dataclass(frozen=True, slots=True)
class Series:
    """What a query gave for one set of labels.

    Attributes:
        ref: of the query.
        name: as the legend says it.
        labels: its labels.
        points: times and values; one for an instant query.

    """

    ref: str
    name: str
    labels: Mapping[str, str]
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Span:
    """What an annotation marks: a region, or a line where it begins and ends at once."""

    begins: float
    ends: float
    color: str


@dataclass(frozen=True, slots=True)
class Place:
    """Where a panel is, in the columns and rows of the grid."""

    x: float
    y: float
    w: float
    h: float


def readable(value: float, unit: str, decimals: int | None = None) -> str:
    """A value with its unit, about as Grafana writes it; a time since another is in milliseconds."""
    if math.isnan(value):
        return ""
    if unit.startswith("suffix:"):
        return f"{_digits(value, decimals)} {unit.removeprefix('suffix:')}"
    return UNITS.get(unit, _short)(value, decimals)


def _short(value: float, decimals: int | None) -> str:
    return _scaled(value, ("", "K", "Mil", "Bil", "Tri"), decimals)


def _bytes(value: float, decimals: int | None) -> str:
    return _scaled(value, ("B", "kB", "MB", "GB", "TB"), decimals)


def _seconds(value: float, decimals: int | None) -> str:
    for size, symbol in ((86400, "d"), (3600, "h"), (60, "min")):
        if abs(value) >= 1.5 * size:
            return f"{_digits(value / size, 1)} {symbol}"
    return f"{_digits(1000 * value, decimals)} ms" if 0 < abs(value) < 1 else f"{_digits(value, decimals)} s"


UNITS: Final[Mapping[str, Callable[[float, int | None], str]]] = {
    "percentunit": lambda value, decimals: f"{_digits(100 * value, decimals)}%",
    "s": _seconds,
    "decbytes": _bytes,
    "Bps": lambda value, decimals: f"{_bytes(value, decimals)}/s",
    "dateTimeAsIso": lambda value, _: datetime.fromtimestamp(value / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S"),
    "dateTimeFromNow": lambda value, _: f"{_seconds(value / 1000, 0)} ago",
}


def _scaled(value: float, symbols: Sequence[str], decimals: int | None) -> str:
    power = 0
    while abs(value) >= 1000 and power < len(symbols) - 1:
        value, power = value / 1000, power + 1
    return f"{_digits(value, decimals)} {symbols[power]}".rstrip()


def _digits(value: float, decimals: int | None) -> str:
    if decimals is None:
        decimals = 0 if value == 0 else max(0, min(3, 2 - math.floor(math.log10(abs(value)))))
    text = f"{value:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


class Sheet:
    """A dashboard as a picture.

    Args:
        rows: how many rows of the grid it has.
        begins: of its time range.
        ends: of its time range.
        spans: of its annotations.

    """

    def __init__(self, rows: float, begins: float, ends: float, spans: Sequence[Span]) -> None:
        mpl.rcParams["font.family"] = "DejaVu Sans"
        self._width, self._height = 24 * COLUMN, rows * ROW
        self._figure = Figure(figsize=(self._width, self._height), dpi=100, facecolor=BACK)
        self._range = begins, ends
        self._spans = spans

    def save(self, path: str) -> None:
        """Write it."""
        self._figure.savefig(path)

    def heading(self, place: Place, title: str) -> None:
        """The heading of a row."""
        x, y = place.x * COLUMN + 0.12, self._height - (place.y + 0.68) * ROW
        self._figure.text(x / self._width, y / self._height, f"\u2304 {title}", fontsize=11, color=TEXT, weight="bold")

    def panel(self, place: Place, definition: Mapping[str, Any], title: str, found: Sequence[Series]) -> None:
        """A panel of any kind."""
        axes = self._framed(place, title)
        draw: dict[str, Callable[[Axes, Mapping[str, Any], Sequence[Series], Place], None]] = {
            "stat": self._stat,
            "timeseries": self._timeseries,
            "state-timeline": self._timeline,
            "table": self._table,
        }
        draw[definition["type"]](axes, definition, found, place)

    def _framed(self, place: Place, title: str) -> Axes:
        x, y, w, h = place.x * COLUMN, place.y * ROW, place.w * COLUMN, place.h * ROW
        gap = 0.05
        frame = self._figure.add_axes(
            (
                (x + gap) / self._width,
                1 - (y + h - gap) / self._height,
                (w - 2 * gap) / self._width,
                (h - 2 * gap) / self._height,
            ),
            facecolor=PANEL,
        )
        frame.set_xticks([])
        frame.set_yticks([])
        for spine in frame.spines.values():
            spine.set_color(GRID)
        frame.text(
            0.1 / w,
            1 - 0.17 / h,
            title,
            transform=frame.transAxes,
            fontsize=8.5,
            color=TEXT,
            va="center",
        )
        return frame

    def _inside(self, frame: Axes, place: Place, left: float, bottom: float) -> Axes:
        box = frame.get_position()
        axes = self._figure.add_axes(
            (
                box.x0 + left / self._width,
                box.y0 + bottom / self._height,
                box.width - (left + 0.12) / self._width,
                box.height - (bottom + HEAD + 0.1) / self._height,
            ),
            facecolor="none",
        )
        axes.tick_params(labelsize=SMALL, colors=DIM, length=0)
        for spine in axes.spines.values():
            spine.set_visible(False)
        return axes

    def _stat(self, frame: Axes, panel: Mapping[str, Any], found: Sequence[Series], place: Place) -> None:
        defaults = panel["fieldConfig"]["defaults"]
        value = found[0].points[-1][1] if found else math.nan
        colored = panel["options"]["colorMode"] != "none"
        color = _by_thresholds(value, defaults.get("thresholds")) if colored else TEXT
        text = readable(value, defaults.get("unit", "short")) or "No data"
        frame.text(0.5, 0.42, text, transform=frame.transAxes, fontsize=21, color=color, ha="center", va="center")

    def _timeseries(self, frame: Axes, panel: Mapping[str, Any], found: Sequence[Series], place: Place) -> None:
        custom = panel["fieldConfig"]["defaults"].get("custom", {})
        overridden = [(one, _overrides(panel, one.name)) for one in found]
        legend = [pair for pair in overridden if not pair[1].get("custom.hideFrom", {}).get("legend")]
        legend.sort(key=lambda pair: -max((value for _, value in pair[0].points), default=0.0))
        shown = legend[: max(1, min(5, round(place.h) - 3))]
        axes = self._inside(frame, place, 0.62, 0.33 + 0.145 * len(shown))
        unit = next(
            (own["unit"] for _, own in overridden if "unit" in own), panel["fieldConfig"]["defaults"].get("unit")
        )
        self._time(axes)
        if custom.get("scaleDistribution", {}).get("type") == "symlog":
            axes.set_yscale("symlog", linthresh=1)
        low = None
        stacked = custom.get("stacking", {}).get("mode") == "normal"
        stack: dict[float, float] = {}
        for number, (one, own) in enumerate(overridden):
            color = _fixed(own) if "color" in own else LINES[number % len(LINES)]
            points = _with_gaps(one.points)
            times = [date2num(datetime.fromtimestamp(ts, UTC)) for ts, _ in points]
            values = [value for _, value in points]
            if "custom.stacking" in own:
                if own.get("custom.fillOpacity"):
                    assert low is not None
                    below = dict(low.points)
                    base = [below.get(ts, math.nan) for ts, _ in points]
                    top = [bottom + value for bottom, value in zip(base, values, strict=True)]
                    axes.fill_between(times, base, top, color=color, alpha=0.25, linewidth=0)
                else:
                    low = one
                continue
            if stacked:
                base = [stack.get(ts, 0.0) for ts, _ in points]
                values = [bottom + value for bottom, value in zip(base, values, strict=True)]
                axes.fill_between(times, base, values, color=color, alpha=0.3, linewidth=0)
                stack |= {ts: value for (ts, _), value in zip(points, values, strict=True) if not math.isnan(value)}
            style = "--" if "custom.lineStyle" in own else "-"
            axes.plot(times, values, style, color=color, linewidth=1.1 if custom.get("lineWidth", 1) < 2 else 1.6)
        steps = panel["fieldConfig"]["defaults"].get("thresholds", {}).get("steps", ())
        if custom.get("thresholdsStyle", {}).get("mode", "off") != "off":
            for step in steps[1:]:
                axes.axhline(step["value"], color=COLORS[step["color"]], linestyle=(0, (4, 3)), linewidth=0.9)
        least = 1.15 * steps[1]["value"] if steps[1:] else 0.0
        some = any(value for one in found for _, value in one.points)
        axes.set_ylim(0, max(axes.get_ylim()[1] if some else 1.0, least))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: readable(value, unit or "short")))
        axes.minorticks_off()
        self._legend(frame, place, shown=shown, overridden=overridden, unit=unit or "short", count=len(legend))

    def _legend(
        self,
        frame: Axes,
        place: Place,
        *,
        shown: Sequence[tuple[Series, Mapping[str, Any]]],
        overridden: Sequence[tuple[Series, Mapping[str, Any]]],
        unit: str,
        count: int,
    ) -> None:
        height, width = place.h * ROW, place.w * COLUMN
        order = [id(one) for one, _ in overridden]
        for line, (one, own) in enumerate(shown):
            y = (0.145 * (len(shown) - line) - 0.06) / height
            color = _fixed(own) if "color" in own else LINES[order.index(id(one)) % len(LINES)]
            values = [value for _, value in one.points if not math.isnan(value)]
            frame.plot([0.12 / width, 0.28 / width], [y, y], color=color, linewidth=2, transform=frame.transAxes)
            name = own.get("displayName", one.name) + (
                f"   (and {count - len(shown)} more)" if line == len(shown) - 1 < count - 1 else ""
            )
            texts = [(0.34 / width, "left", name)]
            if values:
                texts.append((1 - 0.75 / width, "right", readable(max(values), unit)))
                texts.append((1 - 0.12 / width, "right", readable(values[-1], unit)))
            for x, align, text in texts:
                frame.text(x, y, text, transform=frame.transAxes, fontsize=6.8, color=DIM, ha=align, va="center")

    def _timeline(self, frame: Axes, panel: Mapping[str, Any], found: Sequence[Series], place: Place) -> None:
        names = sorted({one.name for one in found}, reverse=True)
        longest = max(map(len, names), default=0)
        axes = self._inside(frame, place, max(1.25, 0.065 * longest), 0.28)
        self._time(axes)
        axes.grid(visible=False)
        words = panel["fieldConfig"]["defaults"]["mappings"][0]["options"]
        for one in found:
            times = [date2num(datetime.fromtimestamp(ts, UTC)) for ts, _ in one.points]
            step = times[1] - times[0] if len(times) > 1 else 1e-5
            for at, (_, value) in zip(times, one.points, strict=True):
                color = COLORS[words[f"{value:g}"]["color"]]
                axes.barh(names.index(one.name), step, left=at, height=0.7, color=color, linewidth=0)
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(-0.6, max(len(names), 2) - 0.4)

    def _table(self, frame: Axes, panel: Mapping[str, Any], found: Sequence[Series], place: Place) -> None:
        renamed = next(one for one in panel["transformations"] if one["id"] == "organize")["options"]["renameByName"]
        refs = {target["refId"]: target for target in panel["targets"]}
        value_of = {f"Value #{ref}" if len(refs) > 1 else "Value": ref for ref in refs}
        rows: dict[tuple[str, ...], dict[str, float]] = {}
        labels = [name for name in renamed if name not in value_of]
        for one in found:
            rows.setdefault(tuple(one.labels.get(name, "") for name in labels), {})[one.ref] = one.points[-1][1]
        heads = [(name, head) for name, head in renamed.items() if not _overrides(panel, head).get("custom.hidden")]
        sort = next(name for name, head in renamed.items() if head == panel["options"]["sortBy"][0]["displayName"])
        ordered = sorted(rows.items(), key=lambda row: -row[1].get(value_of[sort], -math.inf))
        width, height = place.w * COLUMN, place.h * ROW
        weights = [WIDE.get(name, 1.8 if head in {"Onset", "Since"} else 1.0) for name, head in heads]
        total = sum(weights)
        fits = int((height - HEAD - 0.45) / 0.235)
        if not rows:
            frame.text(0.5, 0.45, panel["fieldConfig"]["defaults"].get("noValue", "No data"), transform=frame.transAxes,
                       fontsize=9, color=DIM, ha="center")  # fmt: skip
            return
        for line in range(-1, min(len(ordered), fits)):
            y = 1 - (HEAD + 0.2 + 0.235 * (line + 1)) / height
            frame.plot([0.1 / width, 1 - 0.1 / width], [y - 0.11 / height] * 2, color=GRID, linewidth=0.7,
                       transform=frame.transAxes)  # fmt: skip
            x = 0.15
            for (name, head), weight in zip(heads, weights, strict=True):
                span = (width - 0.3) * weight / total
                text, color, face = head, COLORS["blue"], "bold"
                if line >= 0:
                    key, values = ordered[line]
                    face = "normal"
                    text, color = (
                        (key[labels.index(name)], TEXT)
                        if name in labels
                        else self._cell(panel, head, values.get(value_of[name], math.nan))
                    )
                    if name in labels and _overrides(panel, head).get("links"):
                        color = COLORS["blue"]
                most = int(span / 0.076)
                text = text if len(text) <= most else f"{text[: most - 1]}…"
                right = name not in labels and head != "Onset"
                frame.text(
                    (x + (span - 0.12 if right else 0)) / width, y, text, transform=frame.transAxes, fontsize=SMALL,
                    color=color, va="center", ha="right" if right else "left", weight=face,
                )  # fmt: skip
                x += span
        if len(ordered) > fits:
            frame.text(1 - 0.12 / width, 0.05 / height, f"and {len(ordered) - fits} more rows below", ha="right",
                       transform=frame.transAxes, fontsize=6.5, color=DIM)  # fmt: skip

    def _cell(self, panel: Mapping[str, Any], head: str, value: float) -> tuple[str, str]:
        own = _overrides(panel, head)
        colored = "custom.cellOptions" in own
        color = _by_thresholds(value, own.get("thresholds")) if colored and not math.isnan(value) else TEXT
        unit = own.get("unit", "short")
        if unit == "dateTimeFromNow":
            value = 1000 * self._range[1] - value
        return readable(value, unit, own.get("decimals")), color

    def _time(self, axes: Axes) -> None:
        low, high = (date2num(datetime.fromtimestamp(ts, UTC)) for ts in self._range)
        axes.set_xlim(low, high)
        axes.xaxis.set_major_formatter(DateFormatter("%H:%M:%S", UTC))
        axes.xaxis.set_major_locator(AutoDateLocator(minticks=2, maxticks=6))
        axes.grid(visible=True, color=GRID, linewidth=0.6)
        for span in self._spans:
            begin, end = (date2num(datetime.fromtimestamp(ts, UTC)) for ts in (span.begins, span.ends))
            if span.ends > span.begins:
                axes.axvspan(begin, end, color=COLORS[span.color], alpha=0.09, linewidth=0)
            axes.axvline(begin, color=COLORS[span.color], linewidth=0.8, linestyle=(0, (3, 2)))


def _with_gaps(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Points with a NaN where some are missing, so that no line is drawn there."""
    step = min((after[0] - before[0] for before, after in pairwise(points)), default=0.0)
    found = list(points[:1])
    for before, after in pairwise(points):
        if after[0] - before[0] > 1.5 * step:
            found.append((before[0] + step, math.nan))
        found.append(after)
    return found


def _by_thresholds(value: float, thresholds: Mapping[str, Any] | None) -> str:
    color = "green"
    for step in (thresholds or {"steps": ()})["steps"]:
        if step["value"] is None or value >= step["value"]:
            color = step["color"]
    return COLORS[color]


def _fixed(own: Mapping[str, Any]) -> str:
    """The color that an override says, by its name or verbatim."""
    said: str = own["color"]["fixedColor"]
    return COLORS.get(said, said)


def _overrides(panel: Mapping[str, Any], name: str) -> dict[str, Any]:
    """What a panel's overrides say about a field, the last one counting."""
    said: dict[str, Any] = {}
    for one in panel["fieldConfig"]["overrides"]:
        wanted = one["matcher"]["options"]
        if name == wanted or (one["matcher"]["id"] == "byRegexp" and re.search(wanted.strip("/"), name)):
            said |= {each["id"]: each["value"] for each in one["properties"]}
    return said
