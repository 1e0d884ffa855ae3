"""The only error of opening or reading a trace."""

from __future__ import annotations


class TraceError(Exception):
    """A trace that cannot be read at all.

    If only a part is unreadable, the trace reports it in its `warnings`, and the rest is read.

    Attributes:
        place: the file or folder.
        problem: what was expected, and what was found.

    """

    def __init__(self, place: object, problem: str) -> None:
        super().__init__(f"{place}: {problem}")
        self.place = str(place)
        self.problem = problem

    def __reduce__(self) -> tuple[type[TraceError], tuple[str, str]]:
        return type(self), (self.place, self.problem)
