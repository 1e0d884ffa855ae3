"""The progress of a tracing, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from laggard.pipeline.explaining.units import counted, readable, readable_duration
from laggard.pipeline.history.report import moment
from laggard.pipeline.tracing import COMPLETE, LATE_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from laggard.pipeline.tracing import Figures

_LAST_WORDS: Final = 5  # lines of the log
_FAILED: Final = "laggard: "  # the beginning of the last line of the log if it failed


def last_words(log: Path) -> str:
    """Return the last words of a process in its log, without its name."""
    lines = log.read_text(errors="replace").splitlines()[-_LAST_WORDS:]
    return " ".join(line.removeprefix(_FAILED) for line in lines) or "it has no output"


def failure_of(log: Path) -> str:
    """Return why the last background tracing ended; empty if it did not fail, or has no log."""
    try:
        last = log.read_text(errors="replace").splitlines()[-1:]
    except OSError:
        return ""
    return last[0].removeprefix(_FAILED) if last and last[0].startswith(_FAILED) else ""


def summary(figures: Figures) -> str:
    """Return what a tracing has recorded, or the requests that it has published."""
    over = readable_duration(max(figures.ts - figures.began_ts, 0.0))
    if figures.output:
        return f"{readable('recorded_bytes', figures.bytes)} recorded over {over} to {figures.output}"
    lost = f" ({readable('share_ratio', figures.lost_ratio)} of the events lost)" if figures.lost else ""
    return f"{counted(figures.requests, 'request')} out of {counted(figures.events, 'event')} over {over}{lost}"


def status_lines(figures: Figures, now: float) -> Iterator[str]:
    """Return the lines of `laggard trace status`."""
    lasted_s = max(now - figures.began_ts, 0.0)
    by = ", of `laggard up`" if figures.supervised else ""
    yield (
        f"laggard traces {figures.what}, since {moment(figures.began_ts)} ({readable_duration(lasted_s)}), "
        f"as process {figures.pid}{by}."
    )
    if figures.output:
        lost = f"; {counted(figures.lost, 'event')} lost" if figures.lost else ""
        yield f"  recorded  {readable('recorded_bytes', figures.bytes)} to {figures.output}{lost}"
        yield from _cost_lines(figures)
        return
    recorded = readable("share_ratio", figures.recorded_ratio)
    lost = f", {figures.lost:,} ({readable('share_ratio', figures.lost_ratio)}) lost" if figures.lost else ""
    if figures.lost_per_s:
        present = figures.lost_per_s / (figures.events_per_s + figures.lost_per_s)
        lost += f", at present {readable('share_ratio', present)}"
    rate = f"{figures.events_per_s:,.0f}/s, {figures.events:,} so far{lost}"
    yield f"  events    {rate}; {recorded} of the time is recorded"
    yield f"  lag       {readable('_s', figures.behind_s(now))}{_late(figures, now)}"
    services = ", ".join(f"{service} {count:,}" for service, count in figures.services.items())
    yield f"  requests  {figures.requests_per_s:,.1f}/s, {figures.requests:,} so far{': ' * bool(services)}{services}"
    if figures.discarded:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in figures.discarded.items())
        yield f"  discarded {reasons}"
    if figures.waiting or figures.dropped:
        yield f"  waiting   {figures.waiting:,} for the bus; {figures.dropped:,} lost"
    yield from _cost_lines(figures)


def _cost_lines(figures: Figures) -> Iterator[str]:
    took = max(figures.ts - figures.began_ts, 1e-9)
    priority = f", {figures.priority}" if figures.priority else ""
    yield f"  cost      {readable('share_ratio', figures.cpu_s / took)} of one core{priority}"
    yield from (f"  note      {note}" for note in figures.notes)


def _late(figures: Figures, now: float) -> str:
    """Return what a late or an incomplete tracing means, as the end of a line; empty if it is neither."""
    if figures.behind_s(now) > LATE_S:
        return ": it gets too little CPU time for these events"
    if figures.recorded_ratio < COMPLETE:
        return "; requests during missing events are discarded"
    return ""
