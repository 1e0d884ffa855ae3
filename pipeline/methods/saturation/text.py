"""A saturated resource in plain words: its use, since when, and its top consumers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from laggard.pipeline.core.records.outputs import Blame
from laggard.pipeline.explaining.explain import pid_of, printable
from laggard.pipeline.explaining.units import cores, readable, readable_duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from laggard.operators.saturation.results import Name, Reading, Resource, Use, User

SHARE: Final = 0.25
"""A program is no culprit if its share of the use by all programs is less than this."""

GROWN: Final = 2.0
"""A program has grown if it uses at least this many times as much as before."""

NOTHING: Final = 0.02
"""A program used nothing before if it used less than this share of its present use."""

_SATURATED: Final[Mapping[Name, str]] = {
    "cpu": "The CPUs are saturated: some task has waited for one {} of the time",
    "heat": "The CPUs are too hot: heat has slowed them {} of the time",
    "memory_pressure": "Memory is short: some task has waited for it {} of the time",
    "memory": "Memory is nearly used up: {} of it is in use",
    "disk": "The disk is saturated: some task has waited for I/O {} of the time",
    "filesystem": "The filesystem `{name}` is nearly full: {} of it is in use",
    "descriptors": "The kernel is running out of file descriptors: {} of them are in use",
    "pids": "The kernel is running out of process ids: {} of them are in use",
    "group_memory": "The control group `{name}` is running out of memory: {} of its limit is in use",
    "group_pids": "The control group `{name}` is running out of tasks: {} of its limit is in use",
    "process_descriptors": "`{name}` is running out of file descriptors: {} of its limit is in use",
}

_FILLING: Final[Mapping[Name, str]] = {
    "memory": "Memory will be used up",
    "filesystem": "The filesystem `{name}` will be full",
    "descriptors": "The kernel will have no file descriptors left",
    "pids": "The kernel will have no process ids left",
    "group_memory": "The control group `{name}` will reach its limit of memory",
    "group_pids": "The control group `{name}` will reach its limit of tasks",
    "process_descriptors": "`{name}` will reach its limit of file descriptors",
}


class _Wording(NamedTuple):
    """The wording for the consumers of a resource.

    Attributes:
        begin: the beginning of the sentence.
        unit: a feature in the unit of the use; empty for cores.
        feature: the feature that causes it.

    """

    begin: str
    unit: str
    feature: str


_MOST: Final[Mapping[Use, _Wording]] = {
    "cpu": _Wording("They are used most by", "", "cpu_single_ratio"),
    "memory": _Wording("It is held most by", "memory_rss_bytes", "memory_rss_bytes"),
    "disk": _Wording("It is used most by", "io_write_bytes_per_s", "io_write_bytes_per_s"),
    "written": _Wording("Most is written by", "io_write_bytes_per_s", "io_write_bytes_per_s"),
    "descriptors": _Wording("Most are held by", "descriptors", "descriptors"),
    "threads": _Wording("Most are held by", "threads", "threads"),
}


class Users(Protocol):
    """The consumers of resources."""

    def total(self, use: Use) -> float:
        """Return the present use by all programs together, in base units."""

    def using(self, use: Use, most: int = 3) -> Sequence[User]:
        """Return the present top consumers, the greatest first."""

    def used_by(self, name: str, use: Use) -> float:
        """Return the present use by the program with this name, in base units; NaN if unknown."""


def saturation_sentence(
    reading: Reading, resource: Resource, lasted_s: float, users: Users | None, *, forecast: bool = False
) -> str:
    """Describe a resource that is saturated, or will be full.

    Args:
        reading: the present reading of the resource.
        resource: its state.
        lasted_s: the time since the onset, in seconds.
        users: the consumers of resources; None if unknown.
        forecast: whether to describe the forecast.

    Returns:
        Sentences, free of control characters from the names of filesystems and programs.

    """
    condition = reading.condition
    name = _name(reading)
    left = "" if math.isnan(reading.unused) else f" and {readable('_bytes', reading.unused)} is left"
    if forecast:
        a_minute = readable("_ratio", 60.0 * resource.rate)
        if not math.isnan(reading.unused) and reading.value < 1.0:
            a_minute = readable("_bytes", 60.0 * resource.rate * reading.unused / (1.0 - reading.value))
        text = (
            f"{_FILLING[condition.name].replace('{name}', name)} in about {readable_duration(resource.full_s)} at the "
            f"present rate of {a_minute} a minute: {readable('_ratio', reading.value)} is in use{left}."
        )
    else:
        # A moment says little about the time for which tasks wait.
        share = readable("_ratio", reading.value if condition.fills else resource.mean)
        text = _SATURATED[condition.name].replace("{}", share).replace("{name}", name)
        text += f"{left}. It has been so for {readable_duration(lasted_s)}."
    if reading.is_limit:  # the use by all programs of the host does not explain a limit
        return text + _holder(reading)
    return text if users is None else text + _used(condition.use, users)


def _name(reading: Reading) -> str:
    """Return the name of a resource: a filesystem, a control group, or a process."""
    if reading.condition.name == "process_descriptors":
        return _process(reading.holder or reading.id.partition(" ")[2])
    name = reading.id.partition(" ")[2] if reading.is_limit else reading.id.removeprefix("filesystem ")
    return printable(name)


def _process(row: str) -> str:
    return printable(_program(row))


def _program(row: str) -> str:
    """Return the name of the program of a row."""
    return row.rpartition("[")[0] or row


def blamed_user(reading: Reading, users: Users) -> Blame | None:
    """Return the top consumer of a resource; None if its share is small."""
    condition = reading.condition
    first = next(iter(users.using(condition.use, 1)), None)
    if first is None or first.now < SHARE * users.total(condition.use):
        return None
    resources = (condition.resource,) if condition.resource else ()
    return Blame(first.row, first.name, _MOST[condition.use].feature, first.now, resources=resources)


def blamed_holder(reading: Reading, users: Users | None) -> Blame:
    """Return the process that holds most of a limited resource, otherwise the control group.

    The value is that of the whole program, as in `blamed_user`, so that readers and feedback treat both alike. If it is
    unknown, the value is the share of the limit.
    """
    use = reading.condition.use
    resources = (reading.condition.resource,) if reading.condition.resource else ()
    if not reading.holder:
        return Blame(reading.row, reading.id.partition(" ")[2], reading.feature, reading.value, resources=resources)
    name = _program(reading.holder)
    used = math.nan if users is None else users.used_by(name, use)
    if not used > 0.0:
        return Blame(reading.holder, name, reading.feature, reading.value, resources=resources)
    return Blame(reading.holder, name, _MOST[use].feature, used, resources=resources)


def _holder(reading: Reading) -> str:
    """Return the sentence on the process that holds most of a limited resource; only its pid if it is already named."""
    pid = pid_of(reading.holder)
    if not reading.holder:
        return ""
    if reading.condition.name == "process_descriptors":
        return "" if pid is None else f" Its pid is {pid}."
    phrase = _MOST[reading.condition.use]
    return f" {phrase.begin} `{_process(reading.holder)}`" + ("." if pid is None else f" (pid {pid}).")


def _used(use: Use, users: Users) -> str:
    """Return the sentence on the top consumers, with their growth."""
    found = [each for each in users.using(use) if each.now >= 0.05 * users.total(use)]
    if not found:
        return ""
    phrase = _MOST[use]
    consumers = [_user(each, phrase.unit) for each in found]
    listed = consumers[0] if len(consumers) == 1 else f"{', '.join(consumers[:-1])} and {consumers[-1]}"
    return f" {phrase.begin} {listed}."


def _user(user: User, unit: str) -> str:
    name, pid = printable(user.name), pid_of(user.row)
    who = f"{user.rows:,} processes" if user.rows > 1 else "" if pid is None else f"pid {pid}"
    amount = _amount(user.now, unit)
    grown = ""
    if user.now >= GROWN * user.before:
        grown = f", up from {_amount(user.before, unit) if user.before >= NOTHING * user.now else 'nothing'}"
    inside = ", ".join(each for each in (who, f"{amount}{grown}") if each)
    return f"`{name}` ({inside})"


def _amount(value: float, unit: str) -> str:
    if not unit:
        return cores(value)
    return readable(unit, value) if "_" in unit else f"{value:,.0f} {unit}"
