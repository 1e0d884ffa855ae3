"""Flame graphs: their boxes for several renderers, and a self-contained SVG file.

Drawn after B. Gregg, "The Flame Graph", CACM 59(6), 2016. Functions stand on their callers, as wide as their number of
samples, in alphabetical order. Only the family of a color has a meaning: running functions are warm, those of the
kernel orange, blocked ones blue. Each phase has a graph of its own, and so have blocked threads: thirty idle threads
would leave no room for a running one. The file has no script, no font and no reference to other files. No maintained
Python package draws one from stacks: pyinferno, a binding of inferno, has wheels for single versions of Python only,
and requires a profiler that is not used here.
"""

from __future__ import annotations

import heapq
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple
from xml.sax.saxutils import escape

from laggard.pipeline.explaining.explain import printable
from laggard.pipeline.explaining.units import readable
from laggard.pipeline.history.report import clock, moment
from laggard.pipeline.methods.diagnoses.folded import phase_label, thread_label
from laggard.pipeline.methods.diagnoses.stacks import BLOCKED, KERNEL, frame_label, frames

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from laggard.pipeline.core.records.diagnosis import Diagnosis, Phase, Stack, ThreadState, ThreadUse

WIDTH: Final = 1200
MARGIN: Final = 10
ROW: Final = 17
"""The width of the picture, its margin, and the height of a function, in pixels."""

NARROWEST: Final = 0.3
"""The least width of a box that is drawn, in pixels."""

LETTER: Final = 10
"""The least width of a box with text, in pixels."""

_HEADING: Final = 26
_STYLE: Final = (
    "text{font:12px ui-monospace,Menlo,Consolas,monospace;fill:#111}"
    ".t{font-weight:bold;font-size:15px}.h{font-weight:bold}"
    "rect{stroke:#fff;stroke-width:.5}g:hover rect{stroke:#000;stroke-width:2}"
)


@dataclass(slots=True)
class Box:
    """One function on a stack, with its callees.

    Attributes:
        samples: the number of samples in it.
        module: its module, as in `Location`.
        above: the boxes of its callees, by their labels.

    """

    samples: int = 0
    module: str = ""
    above: dict[str, Box] = field(default_factory=dict)

    def add(self, stack: Iterable[tuple[str, str]], samples: int) -> None:
        """Add a stack: labels and modules, the outermost first."""
        box = self
        box.samples += samples
        for label, module in stack:
            box = box.above.setdefault(label, Box(module=module))
            box.samples += samples


class Placed(NamedTuple):
    """A box with its place: `x` and `width` in the unit of the picture, and the number of boxes below it."""

    label: str
    box: Box
    x: float
    width: float
    below: int


def flame_graph(diagnosis: Diagnosis) -> str:
    """Return the SVG file as text."""
    body: list[str] = []
    top = MARGIN + _HEADING
    for heading, cold, root in _graphs(diagnosis):
        top += _HEADING
        body.append(f'<text class="h" x="{MARGIN}" y="{top - 8}">{_text(heading)}</text>')
        placed = boxes(root, NARROWEST, MARGIN, WIDTH - 2 * MARGIN)
        base = top + max((each.below + 1 for each in placed), default=0) * ROW
        body += (_drawn(each, root.samples, base, cold=cold) for each in placed)
        top = base + MARGIN
    begin_ts = diagnosis.phases[0].begin_ts if diagnosis.phases else diagnosis.ts
    title = _text(f"{diagnosis.name} (pid {diagnosis.pid}) on {diagnosis.host}, {moment(begin_ts)}")
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{top}" role="img">',
            f"<title>{title}</title>",
            f"<style>{_STYLE}</style>",
            f'<rect width="{WIDTH}" height="{top}" fill="#fff"/>',
            f'<text class="t" x="{MARGIN}" y="{MARGIN + 14}">{title}</text>',
            *body,
            "</svg>\n",
        ]
    )


def _graphs(diagnosis: Diagnosis) -> Iterator[tuple[str, bool, Box]]:
    """Yield the graphs of a diagnosis: heading, whether it is of blocked threads, and root."""
    several = len(diagnosis.phases) > 1
    for number, phase in enumerate(diagnosis.phases, 1):
        root = stacked((phase,), "running")
        if root.samples:
            when = f"{clock(phase.begin_ts)} to {clock(phase.end_ts)}"
            where = f", {phase_label(phase, number)}, {when}" if several else ""
            yield f"Running{where}: {_counted(root.samples)}", False, root
    root = stacked(diagnosis.phases, "blocked")
    if root.samples:
        yield f"Blocked: {_counted(root.samples)}", True, root


def stacked(phases: Iterable[Phase], state: ThreadState, tid: int | None = None) -> Box:
    """Return the root box of all stacks in these phases.

    Args:
        phases: phases of one diagnosis.
        state: the state of the wanted stacks, running or blocked.
        tid: the id of the thread; None for all.

    """
    root = Box()
    for phase in phases:
        for thread in phase.threads:
            if tid not in {None, thread.tid}:
                continue
            for stack in thread.stacks:
                if stack.state == state:
                    root.add(_labels(thread, stack), stack.samples)
    return root


def _labels(thread: ThreadUse, stack: Stack) -> Iterator[tuple[str, str]]:
    yield thread_label(thread), ""
    yield from ((frame_label(each), each.module) for each in frames(stack) if each is not BLOCKED)


def boxes(root: Box, narrowest: float, left: float = 0.0, width: float | None = None) -> list[Placed]:
    """Return the boxes that are wide enough to be drawn, from the bottom up, without the root.

    Args:
        root: the root, with samples.
        narrowest: the least width of a box; narrower ones are left out with all boxes above them.
        left: the left edge of the root.
        width: the width of the root; None to measure in samples.

    """
    across = float(root.samples) if width is None else width
    scale = across / root.samples
    placed = [Placed("", root, left, across, -1)]
    for each in placed:  # grows meanwhile
        x = each.x
        for label, box in sorted(each.box.above.items()):
            wide = box.samples * scale
            if wide >= narrowest:
                placed.append(Placed(label, box, x, wide, each.below + 1))
            x += wide
    return placed[1:]


def widest(placed: Sequence[Placed], most: int) -> list[Placed]:
    """Return the `most` widest boxes, each after the box below it."""
    if len(placed) <= most:
        return list(placed)
    # Of equal ones the first: the box below is at least as wide, and comes before.
    largest = heapq.nsmallest(most, enumerate(placed), key=lambda each: (-each[1].width, each[0]))
    return [each for _, each in sorted(largest, key=lambda each: each[0])]


class Occupied(NamedTuple):
    """One function with the number of its samples, and of those in which it was the innermost one (`own`)."""

    label: str
    samples: int
    own: int


def functions(root: Box) -> list[Occupied]:
    """Return the functions of a flame graph, those with most samples of their own first; a recursion counts once."""
    totals: dict[str, int] = {}
    own: dict[str, int] = {}
    left: list[tuple[str, Box, frozenset[str]]] = [(label, box, frozenset()) for label, box in root.above.items()]
    while left:
        label, box, below = left.pop()
        if label not in below:
            totals[label] = totals.get(label, 0) + box.samples
        own[label] = own.get(label, 0) + box.samples - sum(each.samples for each in box.above.values())
        left += [(above, each, below | {label}) for above, each in box.above.items()]
    found = (Occupied(label, totals[label], own[label]) for label in totals)
    return sorted(found, key=lambda each: (-each.own, -each.samples, each.label))


def _drawn(placed: Placed, samples: int, base: int, *, cold: bool) -> str:
    """Return the SVG of a box, with its tooltip."""
    label, box, x, width, below = placed
    title = _text(f"{label}: {_counted(box.samples)}, {readable('_ratio', box.samples / samples)}")
    if box.module and box.module != KERNEL:
        title += f"\n{_text(box.module)}"
    fill = colour(label, box.module, cold=cold)
    at = f'x="{x:.1f}" y="{base - (below + 1) * ROW}" width="{width:.1f}"'
    if width < LETTER:
        return f'<g><title>{title}</title><rect {at} height="{ROW - 1}" fill="{fill}"/></g>'
    # A nested picture clips the text at the edge of the box, but a search finds all of it.
    return (
        f'<g><title>{title}</title><svg {at} height="{ROW}">'
        f'<rect width="100%" height="{ROW - 1}" rx="1" fill="{fill}"/>'
        f'<text x="3" y="12">{_text(label)}</text></svg></g>'
    )


def colour(label: str, module: str, *, cold: bool) -> str:
    """Return the color of a function, the same in all its boxes."""
    shade = zlib.crc32(label.encode("utf-8", "backslashreplace")) % 1000 / 1000.0
    if cold:
        return f"hsl({200 + 20 * shade:.0f} 55% {72 + 10 * shade:.0f}%)"
    if module == KERNEL:
        return f"hsl({36 + 8 * shade:.0f} 95% {58 + 8 * shade:.0f}%)"
    return f"hsl({4 + 24 * shade:.0f} 80% {66 + 8 * shade:.0f}%)"


def _text(text: str) -> str:
    """Return the text escaped for XML, since names of processes and functions are untrusted."""
    return escape(printable(text))


def _counted(samples: int) -> str:
    return f"{samples:,} {'sample' if samples == 1 else 'samples'}"
