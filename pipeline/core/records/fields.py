"""Reading the fields of a JSON object, each with the expected type."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

from laggard.pipeline.core.records import checks
from laggard.pipeline.core.records.errors import RecordError, shown
from laggard.pipeline.core.records.limits import MAX_PLAIN_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

Choice = TypeVar("Choice", bound=str)


class Fields:
    """The fields of one object, each read with the expected type.

    Parameters:
        found: the object.
        place: the origin of the text.
        path: the position of the object in the text, as a prefix for the names of its fields.

    Each method raises `RecordError` if the field is missing or of another type.
    """

    def __init__(self, found: Mapping[str, Any], place: str, path: str = "") -> None:
        self._found = found
        self._path = path
        self.place = place

    def __contains__(self, name: str) -> bool:
        return name in self._found

    def raw(self, name: str) -> Any:
        """Return the unchecked value; None if it is missing."""
        return self._found.get(name)

    def number(self, name: str) -> float:
        """Return a number; null is NaN."""
        value = self._found.get(name, "")
        if value is None:
            return math.nan
        if _is_number(value):
            return float(value)
        raise self.error(name, "a number that float64 can hold, or null")

    def ts(self, name: str) -> float:
        """Return a time."""
        return checks.ts(self._found.get(name), f"{self._path}{name}", self.place)

    def amount(self, name: str) -> float:
        """Return a finite number of at least 0."""
        return checks.amount(self._found.get(name), f"{self._path}{name}", self.place)

    def amounts(self, name: str) -> dict[str, float]:
        """Return finite numbers of at least 0, by state."""
        return checks.amounts(self._found.get(name), f"{self._path}{name}", self.place)

    def numbers(self, name: str) -> tuple[float, ...]:
        """Return a list of numbers; null is NaN."""
        value = self._found.get(name)
        if isinstance(value, list) and all(each is None or _is_number(each) for each in value):
            return tuple(math.nan if each is None else float(each) for each in value)
        raise self.error(name, "a list of numbers that float64 can hold, or null")

    def tuples(self, name: str, length: int) -> list[tuple[float, ...]]:
        """Return a list of lists of `length` numbers each; null is NaN."""
        value = self._found.get(name)
        if isinstance(value, list) and all(isinstance(each, list) and len(each) == length for each in value):
            numbered = [(f"{name}[{number}]", each) for number, each in enumerate(value)]
            return [Fields({path: each}, self.place, self._path).numbers(path) for path, each in numbered]
        raise self.error(name, f"a list of lists of {length} numbers")

    def integer(self, name: str, least: int, most: int) -> int:
        """Return an integer within bounds."""
        value = self._found.get(name)
        if _is_integer(value, least, most):
            return value
        raise self.error(name, f"an integer from {least} to {most}")

    def perhaps_integer(self, name: str, least: int, most: int) -> int | None:
        """Return an integer within bounds; None for null."""
        return None if self._found.get(name, "") is None else self.integer(name, least, most)

    def integers(self, name: str, least: int, most: int) -> tuple[int, ...]:
        """Return a list of integers within bounds."""
        value = self._found.get(name)
        if isinstance(value, list) and all(_is_integer(each, least, most) for each in value):
            return tuple(value)
        raise self.error(name, f"a list of integers from {least} to {most}")

    def text(self, name: str, longest: int = MAX_PLAIN_BYTES, *, shortest: int = 0) -> str:
        """Return a text, by default of up to `MAX_PLAIN_BYTES` characters."""
        return checks.text(self._found.get(name), f"{self._path}{name}", self.place, longest, shortest=shortest)

    def texts(self, name: str, most: int, longest: int) -> tuple[str, ...]:
        """Return a list of at most `most` texts of at most `longest` characters."""
        value = self._found.get(name)
        if isinstance(value, list) and len(value) <= most:
            return checks.texts(value, f"{self._path}{name}", self.place, longest)
        raise self.error(name, f"a list of at most {most:,} texts")

    def boolean(self, name: str) -> bool:
        """Return true or false."""
        value = self._found.get(name)
        if isinstance(value, bool):
            return value
        raise self.error(name, "true or false")

    def choice(self, name: str, choices: tuple[Choice, ...]) -> Choice:
        """Return one of these texts."""
        value = self._found.get(name)
        for choice in choices:
            if choice == value:
                return choice
        raise self.error(name, " or ".join(map(repr, choices)))

    def key(self, name: str) -> str:
        """Return a key, see `checks.key`."""
        return checks.key(self._found.get(name), f"{self._path}{name}", self.place)

    def keyed(self, names: tuple[Choice, ...]) -> tuple[Choice, str]:
        """Return the only one of these members that is there, and its key."""
        there = [name for name in names if name in self]
        if len(there) != 1:
            got = " and ".join(there) or "none of them"
            raise RecordError(self.place, "", f"one of the fields {', '.join(names)}", got)
        return there[0], self.key(there[0])

    def objects(self, name: str) -> list[Fields]:
        """Return a list of objects."""
        value = self._found.get(name)
        if not isinstance(value, list):
            raise self.error(name, "a list of objects")
        for number, each in enumerate(value):
            if not isinstance(each, dict):
                raise RecordError(self.place, f"{self._path}{name}[{number}]", "an object", shown(each))
        return [Fields(each, self.place, f"{self._path}{name}[{number}].") for number, each in enumerate(value)]

    def perhaps_object(self, name: str) -> Fields | None:
        """Return an object; None for null."""
        value = self._found.get(name, "")
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.error(name, "an object, or null")
        return Fields(value, self.place, f"{self._path}{name}.")

    def error(self, name: str, expected: str) -> RecordError:
        """Return the error for a field with an unexpected value."""
        return RecordError(self.place, f"{self._path}{name}", expected, shown(self._found.get(name)))


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, float | int) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _is_integer(value: Any, least: int, most: int) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
