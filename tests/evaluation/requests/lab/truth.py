"""Which requests lost time by a trouble: by the application's own account, and when the trouble was there."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tests.evaluation.requests.lab.injecting import Window
    from tests.evaluation.requests.lab.troubles import Trouble

Verdict = Literal["troubled", "clear", "unclear"]

TROUBLED_S: Final = 0.015
"""A request that lost at least this time is troubled."""
_NUMBER: Final = re.compile(r"\d+")
CLEAR_S: Final = 0.003
"""One that lost no more is not; those between are not counted."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A page as its visitor got it, with the application's own account.

    Attributes:
        path: what was asked for.
        thread: id of the thread that made the page.
        begin, end: when, in seconds since the Unix epoch.
        phases: seconds that its parts took.

    """

    path: str
    thread: int
    begin: float
    end: float
    phases: Mapping[str, float]

    @property
    def page(self) -> str:
        """Which kind of page it is."""
        parts = urlsplit(self.path)
        query = parse_qs(parts.query)
        return "".join(query.get("page", [_NUMBER.sub("*", parts.path), *sorted(query)]))


def read_answers(lines: Iterable[str]) -> list[Answer]:
    """Of `visitors`. Raises ValueError where one is not a page: then the servers could not bear the load."""
    answers = []
    for line in lines:
        fields = json.loads(line)
        if fields["status"] != 200:
            raise ValueError(f"expected pages only, found {line.strip()}")
        answers.append(Answer(fields["path"], fields["thread"], fields["begin"], fields["end"], fields["phases"]))
    return answers


def lost(answers: Sequence[Answer], trouble: Trouble, windows: Sequence[Window]) -> list[float]:
    """Seconds that each request lost by the trouble.

    That is what the afflicted phases took beyond their median on pages of that kind; 0 for a request in whose time the
    trouble was not. Where a trouble can be anywhere in a request, it is the time that they have in common at most.
    """

    def took(answer: Answer) -> float:
        if not trouble.phases:
            return answer.end - answer.begin
        return sum(answer.phases.get(phase, 0.0) for phase in trouble.phases)

    by_page = defaultdict(list)
    for answer in answers:
        by_page[answer.page].append(took(answer))
    usual = {page: median(values) for page, values in by_page.items()}
    found = []
    for answer in answers:
        shared = [
            min(answer.end, window.end + trouble.after_s) - max(answer.begin, window.begin)
            for window in windows
            if window.begin < answer.end and answer.begin < window.end + trouble.after_s
        ]
        most = 0.0 if not shared else sum(shared) if not trouble.phases else float("inf")
        found.append(max(0.0, min(most, took(answer) - usual[answer.page])))
    return found


def verdict(lost_s: float) -> Verdict:
    """Return the verdict on a request that lost this time."""
    return "troubled" if lost_s >= TROUBLED_S else "clear" if lost_s <= CLEAR_S else "unclear"
