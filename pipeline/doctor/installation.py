"""Checks of laggard itself on this machine: its configuration, its disk, its bus, its parts and its port."""

from __future__ import annotations

import os
import shutil
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

from laggard.pipeline.core.bus import BusError
from laggard.pipeline.core.bus.opening import open_bus
from laggard.pipeline.core.claims import holder_of
from laggard.pipeline.core.topics import COUNTERS, Topics
from laggard.pipeline.core.trusted import Untrusted
from laggard.pipeline.doctor.finding import Finding
from laggard.pipeline.doctor.machine import mounts
from laggard.pipeline.doctor.pools import examine_pools
from laggard.pipeline.doctor.profilers import examine_profilers
from laggard.pipeline.doctor.sources import examine_hosts, examine_sources
from laggard.pipeline.doctor.tracing import examine_tracing
from laggard.pipeline.explaining.explain import printable
from laggard.pipeline.investigator.access import page_listen
from laggard.pipeline.manifest import SETTINGS
from laggard.pipeline.settings import SettingError
from laggard.pipeline.settings.general import BusSettings, GeneralSettings, TopicsSettings
from laggard.pipeline.settings.kafka import kafka_options
from laggard.pipeline.settings.producing import AgentSettings
from laggard.pipeline.web.listen import ListenError, worker_listen
from laggard.pipeline.wiring import inputs_of_groups

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from laggard.pipeline.core.bus import Bus
    from laggard.pipeline.core.claims import Holder, Part
    from laggard.pipeline.doctor.finding import Level
    from laggard.pipeline.settings import Settings
    from laggard.pipeline.web.listen import Listen

SPARE_BYTES = 64 << 20
"""Less free space than this is a problem at once."""

SILENT_TICKS = 3
"""An agent without a record for this many ticks, and some seconds, does not publish."""

LAG_S = 30.0
"""A worker does not keep up if records wait longer than this, in seconds."""

_SILENT_S = 10.0
_LOOKED_THROUGH = 1000
_NETWORK = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "ceph", "glusterfs", "lustre", "afs"}
_MEMORY = {"tmpfs", "ramfs"}
_ANSWER_S = 2.0


def examine_installation(settings: Settings, proc: Path = Path("/proc")) -> Iterator[Finding]:
    """Run all checks of laggard's own installation, with valid settings."""
    yield configuration(settings)
    yield examine_profilers(settings)
    yield examine_tracing(settings)
    yield from examine_pools(settings)
    yield from examine_sources(settings)
    bus = bus_path(settings)
    yield from examine_hosts(settings, alone=bus is not None)
    if bus is not None:
        yield file_system(bus, mounts(proc))
        yield room(bus, settings[BusSettings].max_bytes)
    location, state = settings[BusSettings].location, settings[GeneralSettings].state
    try:
        agent, worker = holder_of(location, state, "agent"), holder_of(location, state, "work")
        measuring, serving = holder_of(location, state, "measure"), holder_of(location, state, "serve")
    except Untrusted as error:
        found, _, advice = str(error.strerror).partition("; ")
        yield Finding("bus", "problem", f"{error.filename}: {found}", advice)
        return
    except PermissionError as error:
        advice = "run this as the user that laggard runs as"
        yield Finding("bus", "problem", f"cannot read {error.filename}: permission denied", advice)
        return
    if bus is not None:
        yield from history(settings, bus, agent, worker)
    else:
        yield from _cluster(settings)
    yield running("agent", agent, elsewhere=bus is None)
    yield running("work", worker, elsewhere=bus is None)
    if settings.sources:
        yield running("measure", measuring, elsewhere=bus is None)
    yield port("port", lambda: worker_listen(settings), worker, elsewhere=bus is None)
    yield running("serve", serving, elsewhere=True)  # the page may be off on purpose
    yield port("page", lambda: page_listen(settings), serving, elsewhere=bus is None)


def _cluster(settings: Settings) -> Iterator[Finding]:
    try:
        options = kafka_options(settings)
    except SettingError as error:
        for problem in error.problems:
            found, _, advice = problem.partition("; ")
            yield Finding("configuration", "problem", found, advice or "check that file")
        return
    assert options is not None  # a location that is no path is Kafka
    from laggard.pipeline.doctor.cluster import examine_cluster  # noqa: PLC0415 - most buses are a file

    yield from examine_cluster(settings, options)


def configuration(settings: Settings) -> Finding:
    """Report the places of the settings, and check that others cannot read secrets."""
    given = [setting for setting in SETTINGS if settings.place(setting) != "default"]
    places = ", ".join(dict.fromkeys(settings.place(setting) for setting in given))
    file = settings.config
    found = f"valid; {file or 'no configuration file'}{f', set by {places}' if places else ', all defaults'}"
    if file is not None and file.stat().st_mode & 0o077:
        secrets = [s.name for s in given if s.secret and settings.place(s).startswith(str(file))]
        if secrets:
            return Finding("configuration", "warning", f"others may read {', '.join(secrets)}", f"chmod 600 {file}")
    return Finding("configuration", "ok", found)


def bus_path(settings: Settings) -> Path | None:
    """Return the embedded bus's file, None for another bus."""
    location = settings[BusSettings].location
    return None if "://" in location else Path(location.removeprefix("embedded:")).expanduser().absolute()


def file_system(bus: Path, mounted: list[list[str]]) -> Finding:
    """Check that the bus is in a filesystem that lasts, and where SQLite's locks and write-ahead log work."""
    holding = max(
        (fields for fields in mounted if bus.is_relative_to(fields[1].replace("\\040", " "))),
        key=lambda fields: len(fields[1]),
        default=None,
    )
    kind = holding[2] if holding else "an unknown filesystem"
    if kind in _NETWORK:
        advice = "set bus.location to a local disk: shared memory and locks do not work over a network"
        return Finding("file system", "problem", f"{bus} is on {kind}", advice)
    if kind in _MEMORY:
        return Finding(
            "file system", "warning", f"{bus} is on {kind}", "set bus.location to a disk to keep the history"
        )
    return Finding("file system", "ok", f"{bus} is on {kind}")


def room(bus: Path, max_bytes: int) -> Finding:
    """Check that the bus may be written, and can grow to its limit."""
    # Not `Path.exists`: it raises for a path in a folder of another user.
    folder = next(parent for parent in bus.parents if os.access(parent, os.F_OK))
    advice = "set bus.location or state to a place where you may write"
    if not os.access(folder, os.W_OK | os.X_OK):
        return Finding("disk", "problem", f"{folder} is not writable", advice)
    if bus.exists() and not os.access(bus, os.R_OK | os.W_OK):
        return Finding("disk", "problem", f"{bus} is not writable", advice)
    free = shutil.disk_usage(folder).free
    files = (bus, *(bus.with_name(bus.name + suffix) for suffix in ("-wal", "-shm")))
    used_bytes = sum(file.stat().st_size for file in files if file.exists())
    found = f"{_size(used_bytes)} of at most {_size(max_bytes)} taken, {_size(free)} free on the disk"
    if free < SPARE_BYTES:
        return Finding("disk", "problem", found, "free some space, or set bus.location to another disk")
    if free < max_bytes - used_bytes:
        return Finding("disk", "warning", found, "free some space, or set bus.max_bytes lower")
    return Finding("disk", "ok", found)


def history(settings: Settings, path: Path, agent: Holder | None, worker: Holder | None) -> Iterator[Finding]:
    """Check that the bus opens, and that its records of this host are recent and fit the clock."""
    if not path.exists():
        yield Finding("bus", "ok", "there are no records yet")
        return
    try:
        bus = open_bus(
            settings[BusSettings].location,
            max_bytes=settings[BusSettings].max_bytes,
            retention_s=settings[BusSettings].retention,
        )
        with bus:
            yield from _recorded(settings, bus, agent, worker)
    except BusError as error:
        found, _, advice = str(error).partition("; ")
        yield Finding("bus", "problem", found, advice)


def _recorded(settings: Settings, bus: Bus, agent: Holder | None, worker: Holder | None) -> Iterator[Finding]:
    topics, host = Topics(settings[TopicsSettings].prefix), settings[GeneralSettings].host
    topic = topics.name(COUNTERS)
    try:
        hosts = bus.keys(topic)
    except BusError:
        hosts = ()  # opened, but no part has created its topics yet
    if host not in hosts:
        others = f", only of {', '.join(map(printable, hosts[:5]))}" if hosts else ""
        yield Finding("bus", "ok", f"there are no records of {host}{others}")
        return
    partition, now = bus.partition_of(topic, host), time.time()
    first, end = bus.bounds(partition)
    oldest = next((record.ts for record in bus.read(partition, first, first + 1)), now)
    starts = range(end - 1, max(first, end - _LOOKED_THROUGH) - 1, -1)
    newest = next((record.ts for start in starts for record in bus.read(partition, start, start + 1, host)), oldest)
    found = f"{end - first} records over {(now - oldest) / 3600:.1f} h, "
    found += f"the last of {host} {max(0.0, now - newest):.0f} s ago"
    interval_s = settings[AgentSettings].interval
    if agent is not None and now - max(newest, agent.since) > SILENT_TICKS * interval_s + _SILENT_S:
        advice = "check the agent's output; is its agent.interval the one set here?"
        yield Finding("bus", "problem", f"{found}, though the agent runs", advice)
    else:
        yield Finding("bus", "ok", found)
    yield from clock_steps(newest - now, interval_s)
    if worker is not None:
        for group, read in inputs_of_groups(settings, topics).items():
            each = bus.partition_of(read, host)
            end, committed = bus.bounds(each)[1], bus.committed(group, each)
            waiting = next((record.ts for record in bus.read(each, committed, committed + 1)), now)
            yield lag(group.removeprefix(topics.prefix), end - committed, now - max(waiting, worker.since))


def clock_steps(ahead_s: float, interval_s: float) -> Iterator[Finding]:
    """Check that the newest record is not from the future."""
    if ahead_s > interval_s:
        yield Finding(
            "clock steps",
            "warning",
            f"the newest record is {ahead_s:.0f} s ahead: the clock was set back",
            "nothing; the agent's time runs at half speed until the clock has caught up",
        )


def lag(group: str, records: int, waited_s: float) -> Finding:
    """Report whether a group of operators keeps up with the input."""
    found = f"{group} has {records} records to go, the oldest has waited for {max(0.0, waited_s):.0f} s"
    if records and waited_s > LAG_S:
        return Finding("lag", "warning", found, "is the machine overloaded? See laggard_lag_records at /metrics")
    return Finding("lag", "ok", f"{group} keeps up")


def running(part: Part, holder: Holder | None, *, elsewhere: bool = False) -> Finding:
    """Report whether a part runs; on a networked bus it may run elsewhere."""
    name = "worker" if part == "work" else part
    if holder is None and elsewhere:
        return Finding(name, "ok", "does not run on this machine")
    if holder is None:
        return Finding(name, "warning", "does not run on this bus", f"start `laggard up`, or `laggard {part}`")
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(holder.since))
    return Finding(name, "ok", f"runs as process {holder.pid} since {since}")


def port(check: str, listening: Callable[[], Listen], holder: Holder | None, *, elsewhere: bool = False) -> Finding:
    """Check that a part's port answers or, while the part does not run, is free; on a networked bus it need not run.

    Args:
        check: the name of the check.
        listening: returns the address of the part; may raise `ListenError`.
        holder: the running part.
        elsewhere: whether it may run on another machine.

    """
    if holder is not None and holder.url:
        try:
            with urllib.request.urlopen(f"{holder.url}/-/healthy", timeout=_ANSWER_S):  # noqa: S310 - its own address
                return Finding(check, "ok", f"{holder.url} answers")
        except (OSError, urllib.error.URLError) as error:
            advice = f"stop process {holder.pid}, and start it again"
            return Finding(check, "problem", f"{holder.url} does not answer: {error}", advice)
    try:
        listen = listening()
        listen.bind().close()
    except ListenError as error:
        found, _, advice = str(error).rpartition("; ")
        level: Level = "warning" if elsewhere else "problem"
        return Finding(check, level, found or advice, advice if found else "change that setting")
    address = listen.address
    return Finding(check, "ok", f"{address} is free" if address.port else f"any free one on {address.host}")


def _size(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.3g} GiB"
