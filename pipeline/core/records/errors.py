"""The only error that reading or building a record raises."""

from __future__ import annotations

from typing import Final

LONGEST_SHOWN: Final = 80
"""Characters of a refused value that a message shows."""


class RecordError(ValueError):
    """An invalid record: the message names its place, the field, the expected value and the actual one.

    Attributes:
        place: where it was read, `counters[3]@1042` or `day.jsonl:17`; empty for a record that was being built.
        field: the wrong field, with an index or name inside it if that helps: `rows`, `values`, `rows.nginx[7]`; empty
            for the record as a whole.
        expected: the expected value.
        got: the actual value, shortened.

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
    """Return a refused value for a message: in printable ASCII if it is small, otherwise its type and size."""
    match value:
        case None:
            return "nothing"
        case str() if len(value) > LONGEST_SHOWN:
            return f"{value[:LONGEST_SHOWN]!a}... of {len(value):,} characters"
        case int() if value.bit_length() > LONGEST_SHOWN:
            # Without its digits: they need quadratic time, and Python refuses more than 4,300 of them.
            return f"an integer of {value.bit_length():,} bits"
        case str() | int() | float():
            return ascii(value)
        case bytes() | list() | tuple() | dict():
            return f"{type(value).__name__} of length {len(value):,}"
    return type(value).__name__
