"""Events on this host and their processes: readings twice a second, and S1's state machine on each.

The operator `cpu` has the same state machine, on frames. Here it decides when to sample processes, which cannot wait
for a tick and a worker.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol

import numpy as np

from laggard.pipeline.methods.diagnoses.suspicion import HOST, MAX_OF_GROUP, Suspicion
from laggard.producers.host.groups import all_members
from laggard.producers.host.pressures import Pressures
from laggard.producers.host.quotas import Quotas
from laggard.producers.host.utilisation import Utilisation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from laggard.producers.host.utilisation import Use
    from laggard.producers.system.clock import Clock, Timeline

    Indices = NDArray[np.intp]
    Vector = NDArray[np.float64]

CHECK_S: Final = 0.505
"""The time between two full checks, in seconds: an event is found within a second after it qualifies. Ten checks
take slightly more than S1's 5 s: otherwise a wake-up that is a millisecond early would require an eleventh."""

GLANCE_S: Final = 0.25
"""The time between two checks of the host alone, while no process can be above a threshold, in seconds."""

IDLE_RATIO: Final = 0.6
"""Processes are not read while the host uses less than this share of the lowest threshold: none can be above it then.
The share allows for use that begins between two checks."""

CHECK_RATIO: Final = 0.005
"""The CPU budget of checks, in cores: more expensive checks are less frequent. Samples of suspects have a budget of
their own, since they must not delay the checks of how long a wait lasts."""

RESOURCES: Final = {"io_pressure": "io", "memory_pressure": "memory"}
"""The resources of the pressures, by condition."""

_PROCESSES: Final = ("cpu", "single_cpu")

CONDITIONS: Final = (*_PROCESSES, "quota", *RESOURCES)
"""The conditions that can be watched."""

_NORMAL, _HIGH, _DIAGNOSIS = range(3)  # states of S1's machine; the fourth is Normal-Wait

Key = tuple[str, int | str]
"""The key of an event: its condition, and its process or control group."""


class Transitions(Protocol):
    """The changes of a step of a state machine: the rows by place, their states, and the duration behind the change."""

    @property
    def rows(self) -> Indices: ...  # noqa: D102 - see above
    @property
    def before(self) -> NDArray[np.int8]: ...  # noqa: D102
    @property
    def after(self) -> NDArray[np.int8]: ...  # noqa: D102
    @property
    def lasted_s(self) -> NDArray[np.float64]: ...  # noqa: D102


class Machine(Protocol):
    """S1's state machine for many rows."""

    threshold: float
    states: NDArray[np.int8]
    """One for each row, shape (rows,): Normal, High, Diagnosis and Normal-Wait are 0 to 3."""

    @property
    def active(self) -> bool:
        """Whether any row is not Normal."""

    def step(self, ts: float, values: ArrayLike) -> Transitions:
        """Evaluate all rows once."""

    def align(self, source: Indices) -> None:
        """Replace the rows: `source` has their former places, -1 for new rows."""


class Change(NamedTuple):
    """A change of an event.

    Attributes:
        key: the key of the event.
        what: it began; it went into a dip, or came back from one; it is over.

    """

    key: Key
    what: Literal["begun", "dipped", "returned", "over"]


@dataclass(slots=True)
class Event:
    """An event that lasts.

    Attributes:
        begin_ts: its onset, seconds since the Unix epoch.
        value: the measured value at its detection.
        threshold: the threshold, which this value exceeds.
        pids: the processes concerned, in the order of sampling.
        high: whether it is in high use now, or in a dip.

    """

    begin_ts: float
    value: float
    threshold: float
    pids: tuple[int, ...]
    high: bool = True


class Triggers:
    """Finds events by regular checks of the host.

    Args:
        conditions: S1's state machines by condition, some of `CONDITIONS`.
        clock: the clock.
        timeline: the clock for the times of events.
        root: the mount point of procfs.
        groups: the mount point of control groups.

    Attributes:
        events: the events that last.
        interval_s: the time from the last check to the next one, in seconds.
        took_s: the CPU time of the last check, in seconds, without that in the budget of `SUSPECT_RATIO`.
        suspicion: the samples of processes while pressure is high.

    """

    def __init__(
        self, conditions: Mapping[str, Machine], clock: Clock, timeline: Timeline, root: str, groups: str
    ) -> None:
        self.events: dict[Key, Event] = {}
        self.interval_s = CHECK_S
        self.took_s = 0.0
        self._conditions = conditions
        self._processes = [each for each in _PROCESSES if each in conditions]
        self._clock = clock
        self._timeline = timeline
        self._utilisation = Utilisation(clock, root)
        self._quotas = Quotas(clock, groups)
        self._pressures = Pressures(clock, root, groups)
        self.suspicion = Suspicion(clock, root)
        self._use: Use | None = None
        self._before_s = math.nan  # the time of the last full check
        self._changes: list[Change] = []
        self.forget()

    def close(self) -> None:
        """Close all files; the next check opens them again."""
        self.suspicion.close()
        self._utilisation.close()
        self._quotas.close()
        self._pressures.close()

    def forget(self) -> None:
        """Start from scratch, without any events or readings."""
        self.events.clear()
        self._utilisation.forget()
        self._use = None
        self.suspicion.forget()
        self._before_s = math.nan
        for machine in self._conditions.values():
            machine.align(np.zeros(0, np.intp))

    def check(self) -> Sequence[Change]:
        """Read the use and waits, step each state machine, and return the changes of events."""
        at_s = self._clock.monotonic() / 1e9
        begun = self._clock.cpu() - self.suspicion.cpu_ns
        self._changes = []
        busy = self._utilisation.busy_ratio()
        is_idle = busy < IDLE_RATIO * self._least_busy() and not any(each.active for each in self._conditions.values())
        self.interval_s = GLANCE_S if is_idle else CHECK_S
        if is_idle and self._use is not None:
            self._rest()
        if not is_idle or not at_s - self._before_s < CHECK_S - GLANCE_S / 2:
            self._check(self._timeline.now(), at_s, is_idle=is_idle)
        self.took_s = (self._clock.cpu() - self.suspicion.cpu_ns - begun) / 1e9
        return self._changes

    def _check(self, ts: float, at_s: float, *, is_idle: bool) -> None:
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
        self._check_pressure(ts, at_s)
        self.suspicion.update(at_s, undecided=any(map(self._is_undecided, RESOURCES.keys() & self._conditions.keys())))
        self._before_s = at_s

    def _check_pressure(self, ts: float, at_s: float) -> None:
        """Check the pressure of the host and each control group, with one state machine for each resource."""
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
        """Stop reading processes."""
        self._utilisation.forget()
        self._use = None

    def used(self) -> Mapping[int, float]:
        """Return the use of each process by its id, in cores; 0 if unknown. Empty while processes are not read."""
        if self._use is None:
            return {}
        return dict(zip(self._use.pids, np.nan_to_num(self._use.single).tolist(), strict=True))

    def _least_busy(self) -> float:
        """Return the least share of all CPUs that a process above a threshold uses."""
        shares = {"cpu": 1.0, "single_cpu": 1.0 / self._utilisation.cpus}
        found = [self._conditions[each].threshold * share for each, share in shares.items() if each in self._conditions]
        return min(found, default=np.inf)

    def _align(self, condition: str, source: Indices, names: Sequence[int | str]) -> None:
        """Give a state machine the present rows; events of missing rows are over."""
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
        """Step a state machine, and update its events.

        A machine with only Normal rows is not stepped at low readings. Its last step is made up before a high reading.
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
        """Return the processes of an event, in the order of sampling."""
        condition, name = key
        if isinstance(name, int):
            return (name,)
        if condition in RESOURCES:
            return self.suspicion.suspected(RESOURCES[condition], name, at_s)
        used = self.used()
        return tuple(sorted(all_members(name), key=lambda pid: used.get(pid, 0.0), reverse=True)[:MAX_OF_GROUP])

    def _is_undecided(self, condition: str) -> bool:
        """Return whether the host or a control group is High: not Normal, and in no event."""
        machine = self._conditions[condition]
        return machine.active and bool((machine.states == _HIGH).any())
