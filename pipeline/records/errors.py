"""The one error that reading or building a record raises."""

from __future__ import annotations

from typing import Final

LONGEST_SHOWN: Final = 80
"""Characters of a refused value that a message shows."""


class RecordError(ValueError):
    """Something is no record: the message names where it was, the field, what was expected and what came.

    Attributes:
        place: where it was read, `counters[3]@1042` or `day.jsonl:17`; empty for a record that was being built.
        field: which part of it, with an index or name inside it where that helps: `rows`, `values`, `rows.nginx[7]`;
            empty for the record as a whole.
        expected: what should have been there.
        got: what was there, shortened.

    """

    def __init__(self, place: str, field: str, expected: str, got: str) -> None:
        what = f"field '{field}': " if field else ""
        where = f"{place}: " if place else ""
        super().__init__(f"{where}{what}expected {expected}, got {got}")
        self.place = place
        self.field = field
        self.expected = expected
        self.got = got

    def __reduce__(self) -> tuple[type[RecordError], tuple[str, str, str, str]]:
        return type(self), (self.place, self.field, self.expected, self.got)


def shown(value: object) -> str:
    """A refused value as a message shows it: itself where it is small, in printable ASCII, else its type and size."""
    match value:
        case None:
            return "nothing"
        case str() if len(value) > LONGEST_SHOWN:
            return f"{value[:LONGEST_SHOWN]!a}... of {len(value):,} characters"
        case int() if value.bit_length() > LONGEST_SHOWN:
            # Not its digits: they take quadratic time, and Python refuses more than 4,300 of them.
            return f"an integer of {value.bit_length():,} bits"
        case str() | int() | float():
            return ascii(value)
        case bytes() | list() | tuple() | dict():
            return f"{type(value).__name__} of length {len(value):,}"
    return type(value).__name__
