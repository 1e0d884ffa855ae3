"""The functions that a process executes: names for addresses, and callers, for as long as its files answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laggard.pipeline.core.records.diagnosis import Location
from laggard.producers.diagnosis.addresses import CACHED, AddressSpace
from laggard.producers.diagnosis.symbols import SymbolFiles
from laggard.producers.diagnosis.unwinding import Unwinder
from laggard.producers.system.proc import ProcError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.producers.diagnosis.aside import Aside
    from laggard.producers.diagnosis.parsers import Blocked
    from laggard.producers.system.clock import Clock


class Functions:
    """The functions of a process, from the first call of `see` on.

    Args:
        aside: reads in a thread of its own, for no longer than it may take.
        clock: the clock.
        root: the mount point of procfs.

    """

    def __init__(self, aside: Aside, clock: Clock, root: str) -> None:
        self._notes: dict[str, str] = {}  # by subject
        self._aside = aside
        self._clock = clock
        self._root = root
        self._symbols = SymbolFiles()
        self._locations: dict[int, Location] = {}

    def see(self, pid: int) -> None:
        """Use the memory of this process or thread."""
        self._space = AddressSpace(pid, root=self._root, clock=self._clock, files=self._symbols)
        self._unwinder = Unwinder(f"{self._root}/{pid}", self._space)

    @property
    def notes(self) -> list[str]:
        """The gaps in the results, those of mappings and symbols included."""
        return [*self._notes.values(), *self._space.notes, *self._symbols.notes]

    def close(self) -> None:
        """Close all files."""
        self._aside.submit(self._symbols.close)

    def locate(self, address: int) -> Location:
        """Return the function at an address; without a name if it is unknown."""
        found = self._locations.get(address)
        if found is None:
            try:
                found = self._aside.ask(lambda: self._space.locate(address))
            except TimeoutError:
                self._notes["maps"] = (
                    "some functions have no names: reading its mappings timed out; its memory or one of its "
                    "filesystems may be locked"
                )
                return Location(offset=address)
            except (OSError, ProcError) as error:
                self._notes["maps"] = f"some functions have no names: {error}"
                return Location(offset=address)
            if found is None:  # in no known mapping: the mappings are read again after a while
                return Location(offset=address)
            if len(self._locations) >= CACHED:
                self._locations.clear()
            self._locations[address] = found
        return found

    def callers(self, blocked: Blocked) -> Sequence[Location]:
        """Return the callers of a blocked function; empty if its stack is unreadable."""
        try:
            return self._aside.ask(lambda: self._unwinder.callers(blocked))
        except TimeoutError:
            self._notes["stacks"] = (
                "some callers of blocked functions are missing: reading a stack timed out; it may be paged out, or the"
                " process's memory locked"
            )
        except (OSError, ProcError):
            pass  # without access to its memory, its functions have no names either
        return ()
