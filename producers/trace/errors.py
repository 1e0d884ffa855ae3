"""The one error that opening or reading a trace raises."""

from __future__ import annotations


class TraceError(Exception):
    """A trace that cannot be read at all.

    What is wrong with a part of one is among its `warnings`, and the rest is read.

    Attributes:
        place: file or folder.
        problem: what was expected, and what is there.

    """

    def __init__(self, place: object, problem: str) -> None:
        super().__init__(f"{place}: {problem}")
        self.place = str(place)
        self.problem = problem

    def __reduce__(self) -> tuple[type[TraceError], tuple[str, str]]:
        return type(self), (self.place, self.problem)
