"""A page of metrics, in the text format of Prometheus or OpenMetrics, as samples. Pure.

References: https://prometheus.io/docs/instrumenting/exposition_formats/ and
https://prometheus.io/docs/specs/om/open_metrics_spec/
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as prometheus_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from prometheus_client.metrics_core import Metric

ACCEPT: Final = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
"""The `Accept` header, as Prometheus sends it."""

_OPEN_METRICS: Final = "application/openmetrics-text"
_END: Final = "# EOF"
_PARTS: Final = ("_bucket", "_count", "_sum", "_total")
_SHOWN: Final = 120


class PageError(Exception):
    """A malformed page: what was found, where, and what was expected."""


class Series(NamedTuple):
    """One series: the name of its metric, and its other labels in alphabetical order."""

    name: str
    labels: tuple[tuple[str, str], ...]

    def label(self, name: str) -> str:
        """Return the value of a label, empty if it is missing."""
        return next((value for label, value in self.labels if label == name), "")


def series(name: str, labels: Mapping[str, str]) -> Series:
    """Return the series with this name and these labels; empty labels are dropped."""
    return Series(name, tuple(sorted((label, value) for label, value in labels.items() if value)))


@dataclass(frozen=True, slots=True)
class Page:
    """The content of a page.

    Attributes:
        samples: the values by series, the first one of several.
        counters: names of metrics that the page declares as counters, in addition to those that end with `_total`.
        duplicates: the number of samples of series that were there before.

    """

    samples: Mapping[Series, float]
    counters: frozenset[str]
    duplicates: int


def parse_page(content: bytes, content_type: str, wanted: Callable[[str], bool]) -> Page:
    """Parse the samples of the wanted metrics, by name; the lines of others are skipped.

    Raises:
        PageError: the page is truncated, is not UTF-8, or has a line that is not a sample.

    """
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise PageError(f"line {line}: expected UTF-8") from None
    is_open = content_type.strip().lower().startswith(_OPEN_METRICS)
    if is_open and not text.rstrip("\n").endswith(_END):
        raise PageError(f"the page is truncated: expected {_END!r} at its end")
    if text and not is_open and not text.endswith("\n"):
        raise PageError("the page is truncated: expected a line break at its end")
    lines, counters = _wanted_lines(text, wanted, keep_types=is_open)
    wanted_text = "".join(f"{line}\n" for _, line in lines)
    samples: dict[Series, float] = {}
    duplicates = 0
    try:
        for family in _families(wanted_text, is_open=is_open):
            for sample in family.samples:
                if not wanted(sample.name) or sample.value is None:  # a native histogram has none
                    continue
                one = series(sample.name, sample.labels)
                duplicates += one in samples
                samples.setdefault(one, float(sample.value))
    except Exception as error:  # noqa: BLE001 - on malformed text these parsers raise any exception
        raise PageError(_first_wrong(lines, is_open=is_open) or _message(error)) from None
    return Page(samples, counters, duplicates)


def _families(text: str, *, is_open: bool) -> Iterable[Metric]:
    # The library has no types here.
    found: Iterable[Metric] = open_metrics(f"{text}{_END}\n") if is_open else prometheus_text(text)  # type: ignore[no-untyped-call]
    return found


def _wanted_lines(
    text: str, wanted: Callable[[str], bool], *, keep_types: bool
) -> tuple[list[tuple[int, str]], frozenset[str]]:
    """Return numbered lines with the wanted samples, and the names of counters.

    With types, the type of a family stands before its samples. For Prometheus text they are left out: its parser
    would rename counters to names that are not on the page.
    """
    found: list[tuple[int, str]] = []
    counters: set[str] = set()
    known: dict[str, bool] = {}
    family, type_line = "", (0, "")
    for number, line in enumerate(text.split("\n"), start=1):
        if line.startswith("#"):
            if line.startswith("# TYPE "):
                _, _, family, *kind = [*line.split(" ", 3), ""]
                type_line = number, line
                if kind[0].strip() == "counter":
                    counters.add(family)
            continue
        stripped = line.strip()
        if not stripped:
            continue
        name = stripped.partition("{")[0].partition(" ")[0].partition("\t")[0]
        if name not in known:
            # The parser of OpenMetrics checks whether a histogram is complete.
            of_family = keep_types and name.startswith(family)
            known[name] = wanted(name) or (of_family and any(wanted(family + part) for part in _PARTS))
        if known[name] or not name:
            if keep_types and type_line[0] and name.startswith(family):
                found.append(type_line)
                type_line = 0, ""
            found.append((number, line))
    return found, frozenset(counters)


def _first_wrong(lines: Iterable[tuple[int, str]], *, is_open: bool) -> str:
    """Return the first line that is malformed by itself; empty if all lines are valid, but not together."""
    for number, line in lines:
        if line.startswith("#"):
            continue
        try:
            list(_families(f"{line}\n", is_open=is_open))
        except Exception:  # noqa: BLE001 - see above
            return f"line {number}: expected a metric, its labels and a number, got {line[:_SHOWN]!r}"
    return ""


def _message(error: Exception) -> str:
    return f"expected metrics in text: {str(error)[:_SHOWN]!r}"
