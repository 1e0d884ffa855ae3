"""Declarations of settings: a section has a field for each of its settings.

Parsing, checks, help and documentation follow from the declaration. A setting exists only for a decision of an
operator of the system.

Example:
    >>> class DemoSettings(Section, table="demo"):
    ...     interval = Duration("5s", "The time between two readings.", minimum="1s")
    >>> DemoSettings.interval.name, DemoSettings.interval.read("2m")
    ('demo.interval', 120.0)
    >>> DemoSettings({"demo.interval": 120.0}).interval
    120.0

"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar, cast, overload

from laggard.pipeline.settings.kinds import READERS, Address, Kind, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

Read = TypeVar("Read")
Chosen = TypeVar("Chosen", bound=str)


class Setting(Generic[Read]):
    """One setting: a field of a `Section`, and on an instance of it the value.

    Attributes:
        kind: the kind of its value, see `kinds.py`.
        name: `gaussian.context`; the part before the point is the table in `laggard.toml`.
        default: the default in the form that people write; empty with `found`.
        help: one or two sentences.
        minimum: the least value, written like `default`; empty for none.
        maximum: the greatest value, written like `default`; empty for none.
        choices: for the kind `choice`, the allowed values; for `words`, the allowed names.
        found: returns a default that depends on the machine, from the values read so far, by name, and the environment.
        found_as: the default of `found` in words.
        secret: whether the value is never shown, and not accepted on a command line.
        excludes: the name of a setting that may not be given together with this one.
        check: raises `ValueError` with the expected value, for checks beyond the kind.

    """

    kind: ClassVar[Kind]
    name = ""

    def __init__(
        self,
        default: str,
        help: str,  # noqa: A002 - the name in argparse and click
        *,
        minimum: str = "",
        maximum: str = "",
        choices: tuple[str, ...] = (),
        found: Callable[[Mapping[str, Any], Mapping[str, str]], Read] | None = None,
        found_as: str = "",
        secret: bool = False,
        excludes: str = "",
        check: Callable[[Any], None] | None = None,
    ) -> None:
        self.default = default
        self.help = help
        self.minimum = minimum
        self.maximum = maximum
        self.choices = choices
        self.found = found
        self.found_as = found_as
        self.secret = secret
        self.excludes = excludes
        self.check = check

    @overload
    def __get__(self, section: None, owner: type[Section]) -> Self: ...

    @overload
    def __get__(self, section: Section, owner: type[Section]) -> Read: ...

    def __get__(self, section: Section | None, owner: type[Section]) -> Self | Read:
        return self if section is None else section.value(self)

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return "LAGGARD_" + self.name.upper().replace(".", "_")

    def read(self, value: object) -> Read:
        """Return the value in its base unit. Raises `ValueError` with the expected value."""
        read = READERS[self.kind](value)
        if self.choices:
            chosen = read if isinstance(read, tuple) else (read,)
            if not chosen or not set(chosen) <= set(self.choices):
                raise ValueError(f"{'names out of' if self.kind == 'words' else 'one of'} {', '.join(self.choices)}")
        if isinstance(read, int | float):
            low, high = (READERS[self.kind](bound) if bound else None for bound in (self.minimum, self.maximum))
            if (isinstance(low, int | float) and read < low) or (isinstance(high, int | float) and read > high):
                raise ValueError(f"a {self.kind} {self.bounds}")
        if self.check is not None:
            self.check(read)
        return cast("Read", read)

    @property
    def bounds(self) -> str:
        """The bounds in words; empty without any."""
        if self.minimum and self.maximum:
            return f"from {self.minimum} to {self.maximum}"
        return f"of at least {self.minimum}" if self.minimum else f"of at most {self.maximum}" if self.maximum else ""


class Duration(Setting[float]):
    """A duration, in seconds."""

    kind = "duration"


class Size(Setting[int]):
    """A number of bytes."""

    kind = "size"


class Count(Setting[int]):
    """A whole number."""

    kind = "count"


class Ratio(Setting[float]):
    """A ratio, as a number: 0.85."""

    kind = "ratio"


class Rate(Setting[float]):
    """A rate, in events per day."""

    kind = "rate"


class Number(Setting[float]):
    """A number."""

    kind = "number"


class Choice(Setting[Chosen]):
    """One of the names in `choices`."""

    kind = "choice"

    def __init__(self, default: Chosen, help: str, *, choices: tuple[Chosen, ...]) -> None:  # noqa: A002 - see above
        super().__init__(default, help, choices=choices)


class Flag(Setting[bool]):
    """True or false."""

    kind = "flag"


class Text(Setting[str]):
    """A text on one line."""

    kind = "text"


class Words(Setting[tuple[str, ...]]):
    """A list of names."""

    kind = "words"


class Mapped(Setting[dict[str, str | bool | int | float]]):
    """A table: names with values."""

    kind = "table"


class Tables(Setting[tuple[Table, ...]]):
    """An array of tables."""

    kind = "tables"


class Directory(Setting[Path]):
    """The path of a directory."""

    kind = "path"


class File(Setting[Path | None]):
    """The path of a file, None for none."""

    kind = "file"


class ListenAddress(Setting[Address]):
    """The address and port on which a server listens."""

    kind = "address"


class Section:
    """A table of `laggard.toml`, with its values; a subclass has a field for each setting.

    Args:
        values: the values by the names of the settings.
        places: the places of the given values, by the names of their settings.

    """

    def __init_subclass__(cls, table: str = "") -> None:
        for field, setting in vars(cls).items():
            if isinstance(setting, Setting):
                setting.name = f"{table}.{field}" if table else field

    def __init__(self, values: Mapping[str, Any], places: Mapping[str, str] | None = None) -> None:
        self._values = values
        self._places = places or {}

    @classmethod
    def declared(cls) -> Iterator[Setting[Any]]:
        """Return its settings, those of its base classes first."""
        for each in reversed(cls.__mro__):
            yield from (field for field in vars(each).values() if isinstance(field, Setting))

    def value(self, setting: Setting[Read]) -> Read:
        """Return the value of one of its settings."""
        return cast("Read", self._values[setting.name])

    def place(self, setting: Setting[Any]) -> str:
        """Return the place of a value: `laggard.toml:3`, `LAGGARD_HOST`, `--set`, `default`."""
        return self._places.get(setting.name, "default")
