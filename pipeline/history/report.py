"""Answers as lines of text for a terminal of any width, with and without Unicode.

Text from outside (names, command lines, notes) is escaped, and never read as markup.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from rich.text import Text

from laggard.pipeline.core.own import is_own
from laggard.pipeline.explaining.explain import over, pid_of, printable, shortened
from laggard.pipeline.explaining.short_lived import listed
from laggard.pipeline.explaining.text import FAINT, compared, notable, story
from laggard.pipeline.explaining.units import NOT_THERE, readable, readable_duration, readable_usual
from laggard.pipeline.explaining.verdict import only_waits, verdict_of
from laggard.pipeline.history.series import value_of
from laggard.pipeline.history.sparkline import ASCII, BLOCKS, columns, sparkline

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from laggard.operators.ranking import Ranking, RowScore
    from laggard.pipeline.core.records import Frame
    from laggard.pipeline.explaining.verdict import Verdict
    from laggard.pipeline.history.answers import Answer
    from laggard.pipeline.history.series import Series
    from laggard.pipeline.history.subject import Subject

NARROW: Final = 72
"""Columns: in a narrower terminal the baselines have lines of their own."""

HOST_SUMMARY: Final = (
    ("load_1m", "load"),
    ("cpu_busy_ratio", "CPU"),
    ("pressure_cpu_some_ratio", "waiting for CPU"),
    ("pressure_io_some_ratio", "for I/O"),
    ("pressure_memory_some_ratio", "for memory"),
    ("memory_available_bytes", "memory available"),
)
"""The features of a host that are always shown, with their labels."""


NEXT_STEPS: Final = (
    ("cpu_children", "what it starts: `strace -f -e trace=execve -p {pid}`, or `execsnoop -P {pid}` of bcc"),
    ("cpu_", "which of its threads: `top -H -p {pid}`; let it give way: `renice 10 -p {pid}`"),
    ("timeslices", "which of its threads: `top -H -p {pid}`"),
    ("switches_", "which of its threads: `top -H -p {pid}`"),
    ("io_", "what it has open: `ls -l /proc/{pid}/fd`; let it give way: `ionice -c 3 -p {pid}`"),
    ("memory_", "what its memory is: `cat /proc/{pid}/smaps_rollup`"),
    ("page_faults_", "what its memory is: `cat /proc/{pid}/smaps_rollup`"),
    ("threads", "its threads: `ps -L -p {pid}`"),
    ("descriptors", "what it has open: `ls -l /proc/{pid}/fd`"),
    ("sockets", "what it has open: `ls -l /proc/{pid}/fd`"),
    ("children", "its children: `ps --ppid {pid}`"),
)
"""The next steps on that machine, by the prefix of a process's worst feature."""

NEW_S: Final = 600.0
"""A row that is younger than this, in seconds, is reported as new."""

SHOWN: Final = 0.095
"""Rows with a lower score, which is below 0.1 when it is written, do not help to find a cause."""

_PART: Final = 48  # the most columns of each of the two parts of a plot


@dataclass(frozen=True, slots=True)
class Page:
    """The capabilities of a terminal: its columns, and whether it shows more than ASCII."""

    width: int
    unicode: bool = True


def findings(answer: Answer, *, scored: bool = False) -> Iterator[Text]:
    """Yield the findings among the processes and of the host, with their onset and how reliable they are.

    `scored` is as in `story`.
    """
    first, *others = plain_findings(answer, scored=scored, since=since(answer))
    leads = unusual(answer.ranking) or (answer.verdict.causes and not answer.verdict.culprits)
    yield Text(first, "bold" if leads else "")
    for line in others:
        yield Text(line)
    yield Text(belief(answer), "dim")


def plain_findings(answer: Answer, *, scored: bool = False, since: str = "") -> list[str]:
    """Return the findings in plain words; see `story`."""
    lines = story(answer.verdict, answer.ranking, answer.commands, answer.frame.scope, scored=scored, since=since)
    lines = [*lines, *answer.notices] if answer.begins else [*answer.notices, *lines]
    if answer.short_lived:
        lines.append(f"Short-lived processes seen meanwhile: {listed(answer.short_lived)}.")
    return lines


def telling(answer: Answer) -> Ranking:
    """Return the ranking without rows that do not help to find a cause; those that the text names stay."""
    verdict, rows = answer.verdict, answer.ranking.rows
    named = {row.row for row in verdict.culprits}
    if (first := verdict.taker or next(iter(rows), None)) is not None and notable(first):
        named.add(first.row)
    return replace(answer.ranking, rows=tuple(row for row in rows if row.row in named or not row.score < SHOWN))


def subject_of(answer: Answer, shown: Ranking) -> Subject | None:
    """Return the subject of an answer of which this part of the ranking is shown; None if its row is left out."""
    about = answer.subject
    left_out = {row.row for row in answer.ranking.rows} - {row.row for row in shown.rows}
    return None if about is None or about.row in left_out else about


def ranked(ranking: Ranking, commands: Mapping[str, str], page: Page, verdict: Verdict | None = None) -> Iterator[Text]:
    """Yield each row with its score, name, pid and command, and its features below.

    Rows that only wait come after the others, and laggard's own rows last.

    Args:
        ranking: the ranking, worst row first.
        commands: the command lines by row id.
        page: the terminal.
        verdict: the verdict on the same frame, if it is based on more than the ranking.

    """
    victims = {each.row.row for each in (verdict or verdict_of(ranking)).victims}
    own = [row for row in ranking.rows if is_own(row.name)]
    names = [printable(each.feature) for row in ranking.rows for each in row.features]
    narrow = page.width < NARROW
    longest = min(max(map(len, names), default=0), max(page.width - (22 if narrow else 54), 8))
    waiting = [row for row in ranking.rows if row not in own and (row.row in victims or only_waits(row))]
    takers = [row for row in ranking.rows if row not in own and row not in waiting]
    for row in (*takers, *waiting, *own):
        if takers and waiting and row is waiting[0]:
            yield Text("  Waiting for others:", "dim")
        if own and row is own[0]:
            yield Text("  laggard itself:", "dim")
        yield _heading(row, commands.get(row.row, ""), page)
        if basis := compared(row):
            yield Text(f"{'':8}{basis}", "dim")
        for each in row.features:
            line = Text(f"{'':8}{shortened(printable(each.feature), longest):<{longest}}  ")
            line.append(f"{readable(each.feature, each.value):>10}", "bold")
            usual = f"usually {readable_usual(each.feature, each.mean, each.standard_deviation)}"
            if row.basis == "threshold":
                usual = f"high from {readable(each.feature, each.mean)}"
            if over(each) and each.score >= FAINT:
                usual = f"lately {readable(each.feature, each.scored)}, {usual}"
            if narrow:
                yield line
                yield Text(f"{'':10}{usual}, score {score_digits(each.score)}", "dim")
            else:
                line.append(f"  {usual:<26} {score_digits(each.score):>5}", "dim")
                yield line


def plotted(series: Series, name: str, page: Page) -> Iterator[Text]:
    """Yield the time series on one line, thinned at first and then every tick, with the moment marked below."""
    values = [value for _, value in series.points if math.isfinite(value)]
    if not values:
        return
    low, high = min(0.0, *values), max(values)
    first = min(series.points[0][0], series.moment)
    last = max(series.points[-1][0], series.moment)
    switch = max(first, series.dense_from)
    room = page.width - 3
    # No more columns than points: empty ones would look like gaps.
    left = min(room // 2, _PART, sum(ts < switch for ts, _ in series.points))
    right = min(room - left, _PART, round((last - switch) / series.tick_s) + 1)
    glyphs = BLOCKS if page.unicode else ASCII
    half = series.tick_s / 2.0  # each of the last ticks stands in the middle of its column
    parts = [sparkline(columns(series.points, switch - half, last + half, right), low, high, glyphs)]
    spans = [last - switch]
    if left:
        parts.insert(0, sparkline(columns(series.points, first, switch, left, hold=True), low, high, glyphs))
        spans.insert(0, switch - first)
    lengths = ", then ".join(map(readable_duration, spans))
    title = f"{printable(series.feature)} of {printable(name)}, 0 to {readable(series.feature, high)}, over {lengths}"
    yield Text(title)
    yield Text("  " + "|".join(parts), "cyan")
    share = (series.moment - switch + half) / (last - switch + 2.0 * half)
    place = 2 + (left + 1 if left else 0) + min(int(share * right), right - 1)
    label = clock(series.moment)
    yield Text(
        f"{'':{place}}^ {label}" if place + len(label) + 2 <= page.width else f"{label + ' ^':>{place + 1}}", "bold"
    )


def host_summary(host: str, frame: Frame) -> Text:
    """Return the host's own counters on one line."""
    shown = [f"{label} {readable(feature, value)}" for label, feature, value in host_figures(frame)]
    return Text(f"{printable(host)}: {', '.join(shown)}" if shown else "", "dim")


def host_figures(frame: Frame) -> Iterator[tuple[str, str, float]]:
    """Yield the features of `HOST_SUMMARY` that the frame has: label, feature, value."""
    for feature, label in HOST_SUMMARY:
        value = value_of(frame, frame.layout.rows[0], feature)
        if not math.isnan(value):
            yield label, feature, value


def next_steps(verdict: Verdict, about: Subject) -> str:
    """Return how to investigate the subject of an answer on its machine; empty if unknown."""
    if about.scope == "host":
        return next((each.closer for each in verdict.causes if each.feature is about.feature), "")
    pid = pid_of(about.row)
    if pid is None:
        return ""
    return next((how.format(pid=pid) for begin, how in NEXT_STEPS if about.feature.feature.startswith(begin)), "")


def unusual(ranking: Ranking) -> bool:
    """Return whether any row is beyond the false-alarm budget."""
    return bool(ranking.rows) and ranking.rows[0].score > 1.0


def clock(ts: float) -> str:
    """Return the time of day in the time zone of this program."""
    return time.strftime("%H:%M:%S", time.localtime(ts))


def moment(ts: float) -> str:
    """Return the date and time in the time zone of this program."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(ts))


def _heading(row: RowScore, command: str, page: Page) -> Text:
    line = Text().append(f"{score_digits(row.score):>6}  ", "bold red" if row.score > 1.0 else "dim")
    line.append(printable(row.name), "bold")
    if (pid := pid_of(row.row)) is not None:
        line.append(f"  {pid}")
    shown = printable(command)
    if shown and shown != row.name:
        line.append("  " + shortened(shown, max(page.width - line.cell_len - 3, 12)), "dim")
    return line


def since(answer: Answer, *, clocked: bool = True) -> str:
    """Return the onset as text; empty if it is unknown, or has just passed.

    Args:
        answer: the answer.
        clocked: whether to include the time of day in the time zone of this program; otherwise only the duration.

    """
    until, about, growth = answer.frame.ts, answer.begins, answer.grown
    if about is not None and growth is not None:
        lasted = f"{'more than ' if growth.before else ''}{readable_duration(until - growth.ts)}"
        least, now = (readable(about.feature.feature, value) for value in (growth.value, about.feature.value))
        return f"; it has grown for {lasted}, from {least} to {now}"
    lasted_s = until - answer.began
    if not lasted_s >= 2.0 * answer.tick_s:
        return ""
    if answer.began_before:
        return f", for more than {readable_duration(lasted_s)}"
    if not clocked:
        return f", for {readable_duration(lasted_s)}"
    same_day = time.localtime(answer.began)[:3] == time.localtime(until)[:3]
    return f", since {(clock if same_day else moment)(answer.began)} ({readable_duration(lasted_s)})"


def belief(answer: Answer) -> str:
    """Return how reliable an answer is, in plain words."""
    ranking, worst = answer.ranking, answer.verdict.culprits[0] if answer.verdict.culprits else answer.verdict.taker
    learned = readable_duration(ranking.age_s)
    age = (
        f"The model is young: it has learned for {learned} only."
        if ranking.young
        else f"The model has learned for {learned}."
    )
    # A row that is compared with others is already reported as new.
    if worst is not None and worst.basis == "itself" and worst.age_s < min(NEW_S, ranking.age_s / 2):
        age += f" `{printable(worst.name)}` was first seen {readable_duration(worst.age_s)} before."
    return age


def score_digits(score: float) -> str:
    """Return a score with the digits that matter to a reader."""
    if math.isnan(score):
        return NOT_THERE
    return f"{score:,.0f}" if score >= 100.0 else f"{score:.1f}" if score >= 10.0 else f"{score:.2f}"
