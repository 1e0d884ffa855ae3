"""A diagnosis for a terminal: the activity of the process, then its threads, then the cost of sampling.

The thread with most use comes first, as in `top` and `laggard why`. S1 prints it last, since the end of a long list
stays in view: so does `reverse`. Text from the process is escaped, and never read as markup.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.text import Text

from laggard.pipeline.core.records.diagnosis import Location
from laggard.pipeline.explaining.explain import printable, shortened
from laggard.pipeline.explaining.units import counted, readable
from laggard.pipeline.history.report import clock
from laggard.pipeline.methods.diagnoses.folded import phase_label
from laggard.pipeline.methods.diagnoses.hottest import together, uses
from laggard.pipeline.methods.diagnoses.words import (
    IDLE,
    blocked,
    chain,
    cost,
    did,
    function,
    lasted,
    located,
    looked,
    percent,
    times,
)
from laggard.pipeline.methods.diagnoses.words import sentence as in_words

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from laggard.pipeline.core.records.diagnosis import Diagnosis, Phase
    from laggard.pipeline.history.report import Page
    from laggard.pipeline.methods.diagnoses.hottest import Spot, Use

SHARED: Final = 0.8
"""If the first thread has less than this share of all use, the functions of all threads together are shown, too."""

SHORT: Final = 0.5
"""The lifetime of a thread is shown if it is less than this share of the phase."""

CALLERS: Final = 3
"""The most callers of a function that are shown."""

HOT: Final = 0.5
"""Threads with at least this use, in cores, are highlighted."""


@dataclass(frozen=True, slots=True)
class Shown:
    """The shown part of a diagnosis.

    Attributes:
        threads: the most threads of each phase.
        functions: the most functions of each thread.
        reverse: whether the thread or function with most use comes last.

    """

    threads: int = 5
    functions: int = 3
    reverse: bool = False


BRIEF: Final = Shown(threads=3, functions=2)
BRIEF_PHASES: Final = 5
"""The limits for a diagnosis within another page."""


def diagnosis_lines(diagnosis: Diagnosis, page: Page, shown: Shown) -> Iterator[Text]:
    """Yield the lines of a diagnosis: the activity in a sentence, by phase and by thread, and the cost of sampling."""
    yield Text(in_words(diagnosis), "bold")
    yield Text(looked(diagnosis), "dim")
    for number, phase in enumerate(diagnosis.phases, 1):
        heading = [_heading(phase, number)] if len(diagnosis.phases) > 1 else []
        if lines := [*heading, *_threads(phase, page, shown)]:
            yield Text()
            yield from lines
    yield Text()
    yield Text(cost(diagnosis), "dim")
    for note in diagnosis.notes:
        yield Text(f"Note: {printable(note)}", "dim")


def doing_lines(rows: Sequence[str], shown: int, blamed: Collection[str], ranked: Collection[str]) -> Iterator[Text]:
    """Yield the heading of diagnoses within a page that names culprits.

    Args:
        rows: the diagnosed rows.
        shown: the most of them that are shown.
        blamed: see `standing`.
        ranked: likewise.

    """
    line = Text("What processes were doing", "bold")
    yield line.append(f" ({shown} of {len(rows)} that were profiled)" if len(rows) > shown else "")
    if ranked and any(row not in blamed for row in rows[:shown]):
        yield Text(
            "Processes with high use or long waits are profiled, usual or not; the ranking above lists the most "
            "unusual ones.",
            "dim",
        )


def standing(row: str, blamed: Collection[str], ranked: Collection[str]) -> Text:
    """Return the place of a diagnosed row among the findings above.

    Args:
        row: its id.
        blamed: the culprits.
        ranked: the rows of the ranking that is shown; empty without a ranking.

    """
    if row in blamed:
        return Text("Culprit:", "dim")
    if row in ranked:
        return Text("Ranked above, not a culprit:", "dim")
    return Text(f"Not a culprit{', and less unusual than those above' if ranked else ''}:", "dim")


def brief_lines(diagnosis: Diagnosis, page: Page, ts: float) -> Iterator[Text]:
    """Yield the activity of a process near a time: a sentence, the phases around it, and the threads of its own phase.

    Args:
        diagnosis: the diagnosis.
        page: the page.
        ts: the time, seconds since the Unix epoch.

    """
    yield Text(in_words(diagnosis))
    yield Text(looked(diagnosis), "dim")
    phases = diagnosis.phases
    if not phases:
        return
    now = max((number for number, phase in enumerate(phases) if phase.begin_ts <= ts), default=0)
    first = max(min(now - BRIEF_PHASES // 2, len(phases) - BRIEF_PHASES), 0)
    about = list(enumerate(phases))[first : first + BRIEF_PHASES]
    for number, phase in about:
        if len(phases) > 1:
            yield _heading(phase, number + 1)
        if number == now:
            yield from _threads(phase, page, BRIEF)
    if len(phases) > len(about):
        yield Text(f"{'':10}and {counted(len(phases) - len(about), 'more phase')}", "dim")


def _heading(phase: Phase, number: int) -> Text:
    line = Text(phase_label(phase, number).capitalize(), "bold")
    length = lasted(phase.end_ts - phase.begin_ts)
    line.append(f", {clock(phase.begin_ts)} to {clock(phase.end_ts)} ({length}), sampled {times(phase.samples)}")
    return line.append(f": it {did(phase)}.") if phase.threads else line.append(".")


def _threads(phase: Phase, page: Page, shown: Shown) -> Iterator[Text]:
    threads = uses(phase)
    used = sum(each.share for each in threads)
    blocks = [list(_thread(use, phase, page, shown)) for use in threads[: shown.threads]]
    if used >= IDLE and threads[0].share < SHARED * used:
        heading = Text().append(f"{percent(used):>8}  ", "bold").append("all threads together", "bold")
        blocks.insert(0, [heading, *_spots(together((phase,)), page, shown)])
    more = threads[shown.threads :]
    rest = [f"{counted(len(more), 'more thread')}, {percent(sum(each.share for each in more))}"] if more else []
    if phase.left_out:
        rest.append(f"{counted(phase.left_out, 'thread')} with less use, not kept")
    if rest:
        blocks.append([Text(f"{'':10}and {' and '.join(rest)}", "dim")])
    for block in reversed(blocks) if shown.reverse else blocks:
        yield from block


def _thread(use: Use, phase: Phase, page: Page, shown: Shown) -> Iterator[Text]:
    thread = use.thread
    line = Text().append(f"{percent(use.share):>8}  ", "bold red" if use.share >= HOT else "bold")
    line.append(printable(thread.name) or "thread", "bold").append(f"  {thread.tid}")
    lived_s = thread.last_ts - thread.first_ts
    about = [] if thread.entry == Location() else [f"began in {function(thread.entry, '')}"]
    if lived_s < SHORT * (phase.end_ts - phase.begin_ts):
        about.append(f"seen for {readable('lived_s', lived_s)}")
    if about:
        line.append("  " + shortened(", ".join(about), max(page.width - line.cell_len - 3, 12)), "dim")
    yield line
    yield from _spots(use.spots, page, shown)


def _spots(spots: Sequence[Spot], page: Page, shown: Shown) -> Iterator[Text]:
    lines = [_spot(spot, page) for spot in spots[: shown.functions]]
    if more := spots[shown.functions :]:
        share = percent(sum(each.share for each in more))
        lines.append(Text(f"{share:>16}  in {counted(len(more), 'other place')}", "dim"))
    yield from reversed(lines) if shown.reverse else lines


def _spot(spot: Spot, page: Page) -> Text:
    line = Text(f"{percent(spot.share):>16}  ")
    text = located(spot, "") if spot.state == "running" else blocked(spot, "")
    line.append(shortened(text, max(page.width - line.cell_len - 1, 12)))
    callers = "".join(f" < {each}" for each in chain(spot)[:CALLERS])
    room = page.width - line.cell_len - 1
    return line.append(shortened(callers, room), "dim") if callers and room >= 12 else line
