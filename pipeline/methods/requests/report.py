"""Requests for a terminal: their durations, clusters of similar ones, and the time of a single one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from laggard.pipeline.core.records.requests import REST, Spent
from laggard.pipeline.core.records.strict_json import json_number
from laggard.pipeline.explaining.explain import printable, shortened
from laggard.pipeline.explaining.units import counted, readable, readable_duration
from laggard.pipeline.history.report import clock, moment, score_digits
from laggard.pipeline.methods.requests.drawing import path_lines, state_lines
from laggard.pipeline.methods.requests.lanes import heading, label
from laggard.pipeline.methods.requests.text import missing_text
from laggard.pipeline.methods.requests.words import SYSCALLS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from laggard.operators.requests.results import Difference
    from laggard.pipeline.core.records.requests import Request, RequestOutput
    from laggard.pipeline.history.report import Page
    from laggard.pipeline.methods.requests.queries import Clustered, Durations, Found, Summary

SHOWN_CLUSTERS: Final = 5
"""The most clusters of each service that are shown, those with most time first, if no service is given."""

SHOWN_ALONE: Final = 5
"""The most clusters of a single request that are shown."""

SHOWN_SPENT: Final = 6
SHOWN_ID: Final = 48

NO_CLUSTER: Final = "in no cluster yet"

_HEADS: Final = ("", "requests", "median", "95 %", "longest")


# Of services.


def summaries_lines(found: Sequence[Summary], page: Page, now: float, most: int = SHOWN_CLUSTERS) -> Iterator[Text]:
    """Yield the durations of each service, and its clusters of outlying requests with their causes.

    Args:
        found: the services, at least one.
        page: the page.
        now: the time, seconds since the Unix epoch; NaN for recorded data.
        most: the most clusters of each service.

    """
    for number, summary in enumerate(found):
        if number:
            yield Text()
        yield from _summary_lines(summary, page, now, most)


def _summary_lines(summary: Summary, page: Page, now: float, most: int) -> Iterator[Text]:
    requests = summary.normal.requests + summary.outlying.requests
    line = Text(printable(summary.service), "bold")
    line.append(f": {counted(requests, 'request')}, {_span(summary.begin_ts, summary.newest_ts)}", "not bold")
    yield line
    yield Text()
    yield from _durations_lines(summary)
    if missing := missing_text(summary.missing_ratio, "up to "):
        yield Text(f"{missing} These requests are not counted.", "yellow")
    if summary.cut:
        yield Text("There were more normal ones; the newest are counted.", "dim")
    alone = [each for each in summary.clusters if each.requests == 1][SHOWN_ALONE:]
    shown = [each for each in summary.clusters if each not in alone][:most]
    for cluster in shown:
        yield Text()
        yield from _cluster_lines(cluster, page, now)
    if left := len(summary.clusters) - len(shown):
        yield Text()
        each = " of one request each" if left <= len(alone) else ""
        yield Text(f"        and {counted(left, 'cluster')} more{each}", "dim")
    if summary.young:
        yield Text()
        yield Text("There are too few requests yet for a reliable result.", "dim")


def _durations_lines(summary: Summary) -> Iterator[Text]:
    rows = [("normal", *_cells(summary.normal)), ("outlying", *_cells(summary.outlying))]
    if not summary.normal.requests and not math.isnan(summary.usual_s):
        rows[0] = ("normal", "-", f"mean {readable('duration_s', summary.usual_s)}", "-", "-")
    widths = [max(map(len, column)) for column in zip(_HEADS, *rows, strict=True)]
    for number, row in enumerate((_HEADS, *rows)):
        cells = [
            f"{cell:>{width}}" if place else f"{cell:<{width}}"
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        outlying = number == 2 and summary.outlying.requests
        yield Text(f"  {'  '.join(cells)}".rstrip(), "dim" if not number else "bold red" if outlying else "")


def _cells(durations: Durations) -> tuple[str, str, str, str]:
    times = (durations.median_s, durations.p95_s, durations.longest_s)
    median, p95, longest = (readable("duration_s", each) for each in times)
    return f"{durations.requests:,}", median, p95, longest


def _cluster_lines(cluster: Clustered, page: Page, now: float) -> Iterator[Text]:
    line = Text(f"{cluster.requests:>6,}  ")
    line.append(printable(cluster.cluster) or NO_CLUSTER, "bold" if cluster.cluster else "")
    since = f"since {moment(cluster.begin_ts)}" if cluster.requests > 1 else f"at {moment(cluster.begin_ts)}"
    ago = f" ({readable_duration(max(now - cluster.begin_ts, 0.0))})" if not math.isnan(now) else ""
    newest = f", newest {clock(cluster.newest_ts)}" if cluster.requests > 1 else ""
    of_them = "" if cluster.requests == 1 else f"{cluster.odd:,} of them "
    odd = f", {of_them}odd rather than slow" if cluster.odd else ""
    line.append(f", {since}{ago}{newest}; median {readable('duration_s', cluster.median_s)}{odd}")
    yield line
    yield Text(f"{'':8}{printable(cluster.cause)}")
    yield Text(f"{'':8}for example {shortened(printable(cluster.example), max(page.width - 22, SHOWN_ID))}", "dim")


def _span(begin_ts: float, end_ts: float) -> str:
    same_day = moment(begin_ts)[:10] == moment(end_ts)[:10]
    return f"{moment(begin_ts)} to {(clock if same_day else moment)(end_ts)}"


def summary_json(summary: Summary) -> dict[str, Any]:
    """Return a service's requests as an object for programs."""
    return {
        "service": summary.service,
        "begin_ts": json_number(summary.begin_ts),
        "newest_ts": json_number(summary.newest_ts),
        "normal": _durations_json(summary.normal) | {"mean_s": json_number(summary.usual_s)},
        "outlying": _durations_json(summary.outlying),
        "clusters": [
            {
                "cluster": each.cluster,
                "requests": each.requests,
                "odd": each.odd,
                "begin_ts": json_number(each.begin_ts),
                "newest_ts": json_number(each.newest_ts),
                "median_s": json_number(each.median_s),
                "time_s": json_number(each.time_s),
                "cause": each.cause,
                "example": each.example,
            }
            for each in summary.clusters
        ],
        "young": summary.young,
        "cut": summary.cut,
        "missing_ratio": summary.missing_ratio,
    }


def _durations_json(durations: Durations) -> dict[str, Any]:
    fields = durations._asdict()
    return {name: value if name == "requests" else json_number(value) for name, value in fields.items()}


# Of one request.


def request_lines(found: Found, page: Page) -> Iterator[Text]:
    """Yield all details of one request: the cause if it is an outlier, its critical path, and the uses of its time."""
    request = found.request
    yield Text(heading(request), "bold")
    if found.output is not None:
        yield from _score_lines(found.output)
    yield Text()
    if request.path:
        yield from path_lines(request, page)
    else:
        yield Text("Its critical path is unknown. Its time in each state:")
        yield from state_lines(request.critical_s or request.times_s, request.duration_s, page)
    if request.path and request.times_s and differs(request):
        yield Text()
        yield Text(f"As {printable(request.threads[0])} itself saw it:")
        yield from state_lines(request.times_s, request.duration_s, page)
    if request.spent:
        yield Text()
        yield Text("What took longest:")
        yield from spent_lines(request.spent)
    for note in notes_of(request):
        yield Text(f"Note: {printable(note)}", "yellow")


def notes_of(request: Request) -> list[str]:
    """Return the limits of its reliability, in sentences."""
    missing = missing_text(request.missing_ratio)
    return [*request.notes, *([f"{missing} Only complete requests such as this are reported."] if missing else ())]


def differs(request: Request) -> bool:
    """Return whether its own thread waited for others, whose states are on the path instead."""
    on_path: dict[str, float] = {}
    for piece in request.path:
        on_path[piece.state] = on_path.get(piece.state, 0.0) + piece.end_s - piece.begin_s
    states = {*on_path, *request.times_s}
    slack_s = 0.01 * request.duration_s
    return any(abs(on_path.get(each, 0.0) - request.times_s.get(each, 0.0)) > slack_s for each in states)


def _score_lines(output: RequestOutput) -> Iterator[Text]:
    odd = "odd" if output.odd else "outlying"
    of = f", as others of the cluster {printable(output.cluster)}" if output.cluster else ""
    yield Text(f"It is {odd}, score {score_digits(output.score)}{of}: ").append(printable(output.cause), "bold red")


def spent_lines(spent: Sequence[Spent]) -> Iterator[Text]:
    """Yield the longest uses of time, with their times and counts."""
    shown = [each for each in spent if each.state != REST][:SHOWN_SPENT]
    times = max((len(_times(each)) for each in shown), default=0)
    for each in shown:
        line = Text("  ").append(f"{readable('duration_s', each.time_s):>8}", "bold")
        yield line.append(f"  {_times(each):>{times}}  {use_text(each)}")


def _times(spent: Spent) -> str:
    return counted(spent.times, "time")


def use_text(spent: Spent) -> str:
    """Return a use of time as text: `waits for a task, in fcntl on /var/lib/x.lock, by worker[812]`."""
    text = label(spent.state)
    if spent.syscall:
        text += f", in {spent.syscall}"
    if spent.on:
        text += f" on {spent.on}"
    if spent.by:
        text += f", by {spent.by}{f'[{spent.pid}]' if spent.pid else ''}"
    if spent.result:
        text += f", which returns {spent.result}"
    return printable(text)


def difference_text(found: Difference) -> str:
    """Return a difference of requests as text: `waits for a disk, in read`; or calls in a row: `openat, read`."""
    match found.kind:
        case "state":
            return label(found.what[0])
        case "spent":
            state, syscall, on, by, result = found.what
            return use_text(Spent(state, syscall, on, by, found.pid, result, 0, 0.0))
        case "beyond":
            state, syscall, who = found.what
            return use_text(Spent(state, syscall, "", who, 0, "", 0, 0.0))
        case "ngram":
            does = "" if len(found.what) > 1 else SYSCALLS.get(found.what[0], "")
            return printable(", ".join(found.what)) + (f" ({does})" if does else "")


def recording(to_type: Callable[..., str]) -> str:
    """Return the text on how to record requests.

    Args:
        to_type: returns the command line of a command, from its words.

    """
    return (
        f"`{to_type('trace', 'start', '--php')}` traces those of PHP on this machine, "
        f"`{to_type('trace', 'start', '--help')}` says what else can be traced, and "
        f"`{to_type('trace', 'read', 'FILE')}` reads recordings, LTTng's traces and OpenTelemetry's spans"
    )


def listed(requests: Iterable[Request | RequestOutput]) -> Iterator[str]:
    """Yield a line for each request: its id, its service, and its duration."""
    for each in requests:
        name = f" {each.name}" if each.name else ""
        yield printable(f"{each.request} ({each.service}{name}, {readable('duration_s', each.duration_s)})")
