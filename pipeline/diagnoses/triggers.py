"""What is wrong on this host now, and with which processes: readings twice a second, and S1's machine on each.

The same machine is in the operator `cpu`, on frames. Here it decides when processes are looked into, which cannot wait
for a tick and a worker.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol

import numpy as np

from laggard.producers.host.groups import all_members, members
from laggard.producers.host.pressures import Pressures
from laggard.producers.host.quotas import Quotas
from laggard.producers.host.suspects import Suspects
from laggard.producers.host.utilisation import Utilisation
from laggard.producers.system.patience import Patience

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from laggard.producers.host.utilisation import Use
    from laggard.producers.system.clock import Clock, Timeline

    Indices = NDArray[np.intp]
    Vector = NDArray[np.float64]

LOOK_S: Final = 0.505
"""Between two looks at everything, so that an event is seen within a second of when it is one. Ten of them are a little
more than S1's 5 s: else one that is woken a millisecond earlier than another would make it eleven."""

GLANCE_S: Final = 0.25
"""Between two looks at the host alone, while nobody can use too much."""

IDLE_RATIO: Final = 0.6
"""Processes are not asked while the host uses less than this part of what the least condition needs: nobody can be
above it then. It is a part, as use begins in the middle between two looks."""

LOOK_RATIO: Final = 0.005
"""What looks may take of one core: where they take more, they are further apart. Those at who waits have a bound of
their own: they are no reason to look later at how long that lasts."""

MAX_SUSPECTS: Final = 3
"""So many processes are concerned where the host's pressure is high, which is nobody's own ..."""

MAX_OF_GROUP: Final = 2
"""... and so many of a control group that is held back by its quota, or whose own pressure is high."""

SUSPECT_S: Final = 1.0
"""Between two looks at who waits, while pressure is high."""

SUSPECT_RATIO: Final = 0.01
"""What that may take of one core."""

RESOURCES: Final = {"io_pressure": "io", "memory_pressure": "memory"}
"""By condition of pressure, what tasks wait for."""

HOST: Final = ""
"""Where events are those of control groups, that which is the host's."""

_PROCESSES: Final = ("cpu", "single_cpu")

CONDITIONS: Final = (*_PROCESSES, "quota", *RESOURCES)
"""Those that can be watched."""

_NORMAL, _HIGH, _DIAGNOSIS = range(3)  # states of S1's machine; the fourth is Normal-Wait

Key = tuple[str, int | str]
"""An event: its condition, and of which process or group it is."""


class Transitions(Protocol):
    """What changed at a step of a machine: rows by their places, the states, how long what made them change lasted."""

    @property
    def rows(self) -> Indices: ...  # noqa: D102 - see above
    @property
    def before(self) -> NDArray[np.int8]: ...  # noqa: D102
    @property
    def after(self) -> NDArray[np.int8]: ...  # noqa: D102
    @property
    def lasted_s(self) -> NDArray[np.float64]: ...  # noqa: D102


class Machine(Protocol):
    """S1's machine for many rows."""

    threshold: float
    states: NDArray[np.int8]
    """One for each row, shape (rows,): Normal, High, Diagnosis and Normal-Wait are 0 to 3."""

    @property
    def active(self) -> bool:
        """Whether any row is not Normal."""

    def step(self, ts: float, values: ArrayLike) -> Transitions:
        """Evaluate all rows once."""

    def align(self, source: Indices) -> None:
        """Let other rows take the places; -1 for a new one."""


class Change(NamedTuple):
    """Something that happened to an event.

    Attributes:
        key: which.
        what: it began; it went into a dip, or came back from one; it is over.

    """

    key: Key
    what: Literal["begun", "dipped", "returned", "over"]


@dataclass(slots=True)
class Event:
    """Something that is wrong now.

    Attributes:
        begin_ts: since when, seconds since the Unix epoch.
        value: the measure when it was found to last.
        threshold: what that is above.
        high: whether it is in high use now, or in a dip.
        pids: the processes concerned, those first that are to be looked into first.

    """

    begin_ts: float
    value: float
    threshold: float
    pids: tuple[int, ...]
    high: bool = True


class Triggers:
    """Finds events by looking at the host now and then.

    Args:
        conditions: by name, S1's machine for it. Some of `CONDITIONS`.
        clock: what tells the time.
        timeline: what stamps events.
        root: where procfs is mounted.
        groups: where control groups are mounted.

    Attributes:
        events: what is wrong now.
        interval_s: when to look again, after the last look.
        took_s: CPU time of the last look, in seconds, without what `SUSPECT_RATIO` bounds.

    """

    def __init__(
        self, conditions: Mapping[str, Machine], clock: Clock, timeline: Timeline, root: str, groups: str
    ) -> None:
        self.events: dict[Key, Event] = {}
        self.interval_s = LOOK_S
        self.took_s = 0.0
        self._conditions = conditions
        self._processes = [each for each in _PROCESSES if each in conditions]
        self._clock = clock
        self._timeline = timeline
        self._root = root
        self._utilisation = Utilisation(clock, root)
        self._quotas = Quotas(clock, groups)
        self._pressures = Pressures(clock, root, groups)
        self._suspects: Suspects | None = None
        self._patience = Patience()
        self._suspected_ns = 0  # CPU time that looks at who waits have taken
        self._undecided = False
        self._suspect_at_s = self._looked_at_s = -math.inf
        self._use: Use | None = None
        self._before_s = math.nan  # when everything was looked at last
        self._changes: list[Change] = []
        self.forget()

    @property
    def aside_s(self) -> float:
        """CPU time that it took in threads of its own so far, in seconds."""
        return self._patience.cpu_ns / 1e9

    def close(self) -> None:
        """Close all files; the next look opens them again."""
        self._patience.close()
        self._utilisation.close()
        self._quotas.close()
        self._pressures.close()

    def forget(self) -> None:
        """Begin anew, as if nothing had been seen."""
        self.events.clear()
        self._utilisation.forget()
        self._use = self._suspects = None
        self._before_s = math.nan
        for machine in self._conditions.values():
            machine.align(np.zeros(0, np.intp))

    def look(self) -> Sequence[Change]:
        """Read what is used and waited for, let each machine take a step, and tell what changed."""
        at_s = self._clock.monotonic() / 1e9
        begun = self._clock.cpu() - self._suspected_ns
        self._changes = []
        busy = self._utilisation.busy_ratio()
        is_idle = busy < IDLE_RATIO * self._least_busy() and not any(each.active for each in self._conditions.values())
        self.interval_s = GLANCE_S if is_idle else LOOK_S
        if is_idle and self._use is not None:
            self._rest()
        if not is_idle or not at_s - self._before_s < LOOK_S - GLANCE_S / 2:
            self._look(self._timeline.now(), at_s, is_idle=is_idle)
        self.took_s = (self._clock.cpu() - self._suspected_ns - begun) / 1e9
        return self._changes

    def _look(self, ts: float, at_s: float, *, is_idle: bool) -> None:
        utilisation = self._utilisation
        if "quota" in self._conditions:
            throttling = self._quotas.read()
            self._align("quota", throttling.source, throttling.groups)
            self._step("quota", ts, at_s, throttling.ratios, throttling.groups)
        if not is_idle:
            use = self._use = utilisation.read()
            for each in self._processes:
                if not use.same:
                    self._align(each, use.source, use.pids)
                ratios = use.single / utilisation.cpus if each == "cpu" else use.single
                self._step(each, ts, at_s, ratios, use.pids)
        self._look_at_pressure(ts, at_s)
        self._suspect(at_s)
        self._before_s = at_s

    def _look_at_pressure(self, ts: float, at_s: float) -> None:
        """The host's pressure and that of each control group, which have one machine for each resource."""
        watched = {each: resource for each, resource in RESOURCES.items() if each in self._conditions}
        if not watched:
            return
        groups, source, ratios = self._pressures.read()
        names = (HOST, *groups)
        places = np.append(0, np.where(source >= 0, source + 1, -1))
        for each, resource in watched.items():
            self._align(each, places, names)
            values = np.append(self._utilisation.pressure_ratio(resource), ratios[resource])
            self._step(each, ts, at_s, values, names)

    def _rest(self) -> None:
        """Ask no processes any more."""
        self._utilisation.forget()
        self._use = None

    def used(self) -> Mapping[int, float]:
        """What each process uses of one CPU, by its id, as far as it is known."""
        if self._use is None:
            return {}
        return dict(zip(self._use.pids, np.nan_to_num(self._use.single).tolist(), strict=True))

    def _least_busy(self) -> float:
        """The least share of all CPUs that a process of which something is wrong can use."""
        shares = {"cpu": 1.0, "single_cpu": 1.0 / self._utilisation.cpus}
        found = [self._conditions[each].threshold * share for each, share in shares.items() if each in self._conditions]
        return min(found, default=np.inf)

    def _align(self, condition: str, source: Indices, names: Sequence[int | str]) -> None:
        """Give a machine the rows that there are now; what was wrong with those that are gone is over."""
        machine = self._conditions[condition]
        if not machine.active:
            return
        machine.align(source)
        there = {name for name, place in zip(names, source.tolist(), strict=True) if place >= 0}
        for key in [key for key in self.events if key[0] == condition and key[1] not in there]:
            self._change(key, "over")

    def _step(
        self, condition: str, ts: float, at_s: float, values: NDArray[np.float64], names: Sequence[int | str]
    ) -> None:
        """Let a machine take a step, and do what follows from it.

        Of a machine with nothing but Normal rows and low readings time alone passes: it takes its steps when needed.
        """
        machine = self._conditions[condition]
        if not machine.active:
            if not np.fmax.reduce(values, initial=-np.inf) >= machine.threshold:
                return
            machine.align(np.full(len(values), -1, np.intp))
            machine.step(self._before_s, np.zeros(len(values)))
        changed = machine.step(at_s, values)
        for row, before, after, lasted_s in zip(
            changed.rows.tolist(),
            changed.before.tolist(),
            changed.after.tolist(),
            changed.lasted_s.tolist(),
            strict=True,
        ):
            key = condition, names[row]
            if (before, after) == (_HIGH, _DIAGNOSIS):
                value = float(values[row])
                self.events[key] = Event(ts - lasted_s, value, machine.threshold, self._concerned(key, at_s))
                self._changes.append(Change(key, "begun"))
            elif key in self.events:
                self._change(key, "over" if after == _NORMAL else "returned" if after == _DIAGNOSIS else "dipped")

    def _change(self, key: Key, what: Literal["dipped", "returned", "over"]) -> None:
        self.events[key].high = what == "returned"
        if what == "over":
            del self.events[key]
        self._changes.append(Change(key, what))

    def _concerned(self, key: Key, at_s: float) -> tuple[int, ...]:
        """The processes that an event is of, those first that are to be looked into first."""
        condition, name = key
        if isinstance(name, int):
            return (name,)
        if condition in RESOURCES:
            return self._suspected(RESOURCES[condition], name, at_s)
        used = self.used()
        return tuple(sorted(all_members(name), key=lambda pid: used.get(pid, 0.0), reverse=True)[:MAX_OF_GROUP])

    def _suspected(self, resource: str, name: str, at_s: float) -> tuple[int, ...]:
        """Of the host's processes or a group's, those that wait for a resource and those that take it."""
        among = None if name == HOST else members(name)
        if among is not None and len(among) == 1:
            return tuple(among)
        if self._suspects is None:
            return ()
        self._look_at(self._suspects, at_s)  # whatever that cost before: there was a first look, this is the last
        return self._suspects.worst(resource, MAX_SUSPECTS if among is None else MAX_OF_GROUP, among)

    def _suspect(self, at_s: float) -> None:
        """Look at who waits, while pressure is high and it is not decided yet who is looked into."""
        undecided = [each for each in RESOURCES if each in self._conditions and self._is_undecided(each)]
        due = at_s >= self._suspect_at_s
        # A trouble begins with a look of its own, unless there was one lately: pressure may flap about its threshold.
        if due and not (undecided and self._undecided):
            self._suspects = None
        self._undecided = bool(undecided)
        if undecided:
            self._suspects = self._suspects or Suspects(self._root, self._patience)
            if due:
                self._look_at(self._suspects, at_s)

    def _is_undecided(self, condition: str) -> bool:
        """Whether a host or group is High: not Normal, and in no event."""
        machine = self._conditions[condition]
        return machine.active and bool((machine.states == _HIGH).any())

    def _look_at(self, suspects: Suspects, at_s: float) -> None:
        if at_s == self._looked_at_s:
            return  # of several events that begin at once
        self._looked_at_s = at_s
        begun, aside_ns = self._clock.cpu(), self._patience.cpu_ns
        suspects.look()
        own_ns = self._clock.cpu() - begun
        took_ns = own_ns + self._patience.cpu_ns - aside_ns
        self._suspected_ns += own_ns
        self._suspect_at_s = at_s + max(SUSPECT_S, took_ns / 1e9 / SUSPECT_RATIO)
