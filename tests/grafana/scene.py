"""A real worker on a bus of its own, and a real Prometheus that reads it: what the dashboards' queries are asked of.

Three machines are simulated, for half an hour before the scene at once and then in real time, a tick a second. Two of
them get into trouble, somebody marks it, and some records are no good. Two of them serve an application, whose response
times follow how long tasks wait for a CPU on one of them. There are two pools, the threads of a server and the replicas
of a service, whose members do what the load asks for, all alike, until one gets into trouble. Of one more service the
requests are traced, and some of them are held up.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from laggard.pipeline.core.bus import Outgoing
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.engine.stage import REPLAY_HEADER
from laggard.pipeline.core.own import NAMES
from laggard.pipeline.core.records import Frame, Mark, Request, encode, make_layout
from laggard.pipeline.core.topics import COUNTERS, REQUESTS, TOPIC_OF, Topics
from laggard.pipeline.methods.applications.intervals import GRACE_S
from laggard.producers.host.agent import AGENT_FEATURES
from tests.evaluation.simulated import HOST_FEATURES, START, Fault, Kind, Machine
from tests.grafana.service import Service
from tests.monitoring.servers import awaited, query, running_prometheus
from tests.monitoring.worker import running_worker

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from laggard.pipeline.core.records import Layout
    from tests.evaluation.simulated import Tick
    from tests.grafana.service import Held

BEFORE_S: Final = 1800
"""What the models learn from before the scene begins: not live, so that it opens no incident."""

POOLS_BEFORE_S: Final = 600
"""Of that pools are told in the last part alone: they are not young after 192 ticks."""

REQUESTS_BEFORE_S: Final = 700
"""Requests are not young after 600 s, and 1,000 of them."""

LEARNS_S: Final = 4.0
"""As long as this takes on a quiet machine. Where it takes longer, the scene begins later, by `LATE_S` at most."""

LATE_S: Final = 20.0
"""Where learning takes longer than this, it is done anew with more time: else the scene would be in the past."""

LONGEST_S: Final = 600

KIND: Final = Kind("server", 40, 1.0, 4, 60.0)

LABELS: Final = {"environment": "production", "cluster": "north"}
"""Of a scrape configuration."""

TOPICS: Final = Topics()

OPERATORS: Final = "gaussian,cpu,regression,covariance,requests"

APPLICATION: Final = "shop"
SERVED_BY: Final = ("web-1", "db-1")
INTERVAL_S: Final = 2.0
"""Of the application's performance."""

THREADS: Final = "web-1/java/http-nio-8080-exec"
REPLICAS: Final = "checkout"
SERVICE: Final = "wordpress"

PROGRAMS: Final = {
    "kworker": ("kworker", "ksoftirqd", "rcu_sched", "migration"),
    "idle": ("sshd", "agetty", "dbus-daemon", "polkitd"),
    "daemon": ("containerd", "rsyslogd", "systemd-journald", "node_exporter"),
    "service": ("nginx", "gunicorn"),
    "database": ("postgres",),
    "batch": ("logrotate",),
}
"""What simulated processes are called here, by their role."""


STARTED: Final = {
    "nginx": ("nginx: worker process", "www-data", "docker/7d1c9f5e02ab"),
    "gunicorn": ("/usr/bin/python3 /usr/bin/gunicorn --workers 4 shop.wsgi:application", "shop", "docker/41e0b77c9d3f"),
    "postgres": ("postgres: 15/main: checkpointer", "postgres", "system.slice/postgresql@15-main.service"),
    "sshd": ("sshd: /usr/sbin/sshd -D [listener] 0 of 10-100 startups", "root", "system.slice/ssh.service"),
    "dbus-daemon": ("/usr/bin/dbus-daemon --system --nofork", "messagebus", "system.slice/dbus.service"),
    "containerd": ("/usr/bin/containerd", "root", "system.slice/containerd.service"),
    "rsyslogd": ("/usr/sbin/rsyslogd -n -iNONE", "syslog", "system.slice/rsyslog.service"),
    "node_exporter": ("/usr/bin/prometheus-node-exporter", "prometheus", "system.slice/node-exporter.service"),
    "logrotate": ("/usr/sbin/logrotate /etc/logrotate.conf", "root", "system.slice/logrotate.service"),
}
"""Of programs: the command line, the user, and the container or control group."""

OWN: Final[Mapping[str, Mapping[str, float]]] = {
    NAMES["agent"]: {"cpu_user_ratio": 0.002, "cpu_system_ratio": 0.001, "memory_rss_bytes": 4.1e7},
    NAMES["work"]: {"cpu_user_ratio": 0.021, "cpu_system_ratio": 0.003, "memory_rss_bytes": 1.62e8},
    NAMES["serve"]: {"cpu_user_ratio": 0.006, "cpu_system_ratio": 0.001, "memory_rss_bytes": 1.35e8},
}
"""What laggard's own processes use, by their names."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """What happens to a process of a host, or to a member of a pool, from and to when in seconds of the scene.

    Attributes:
        key: the host or the pool.
        name: of the process or of the member.
        kind: of a process, as `tests.evaluation.simulated` calls it; of a member `busy`, `stuck` or `leak`.
        start_s: when it begins.
        end_s: when it ends.
        strength: of a process how much, in the unit of the kind; of a member that leaks, its share a second.

    """

    key: str
    name: str
    kind: str
    start_s: float
    end_s: float
    strength: float


@dataclass(frozen=True, slots=True)
class Script:
    """What happens in a scene, in seconds from its beginning.

    Attributes:
        lasts_s: how long it is.
        troubles: of processes and of members of pools.
        held: what holds requests up.
        marks: when which host was marked.
        junk_s: when records come that are unreadable or too late.
        own: hosts among whose processes are those of laggard itself.

    """

    lasts_s: float
    troubles: tuple[Trouble, ...]
    held: tuple[Held, ...]
    marks: tuple[tuple[float, str], ...]
    junk_s: float
    own: tuple[str, ...] = ()


class Host:
    """One simulated machine, whose time is shifted to that of the scene."""

    def __init__(self, name: str, seed: int, begins: float, script: Script, interval_s: float) -> None:
        self.name = name
        kind = replace(KIND, interval_s=interval_s)
        self._own = OWN if name in script.own else {}
        days = (BEFORE_S + LONGEST_S) / 86400.0
        scene = START + BEFORE_S
        self._programs: dict[str, str] = {}
        machine = Machine(kind, days, seed)
        numbers = {self._program(row): number for number, row in enumerate(machine.names)}
        faults = tuple(
            Fault(one.kind, numbers[one.name], scene + one.start_s, scene + one.end_s, one.strength)
            for one in script.troubles
            if one.key == name
        )
        self._ticks = Machine(kind, days, seed, faults).ticks()
        self._shift = begins - scene
        self._sequence = count(1)
        self._layouts: dict[int, tuple[Layout, Layout]] = {}
        self._random = np.random.default_rng(seed)
        self._of_own = np.random.default_rng([seed, 1])  # what happens else is the same with them and without

    def frames(self) -> list[Frame]:
        """Of the next tick: its processes, the host itself, and its agent."""
        tick = next(self._ticks)
        own = make_layout((self.name,), (self.name,), (*HOST_FEATURES, *_MORE), ("",))
        agent = make_layout((self.name,), (self.name,), AGENT_FEATURES, ("",))
        return [
            self._frame("process", tick, self._named(tick.layout), self._with_own(tick)),
            self._frame("host", tick, own, np.concatenate([tick.host, _more(tick.host)], axis=1)),
            self._frame("agent", tick, agent, self._agent(len(tick.values))),
        ]

    def _frame(self, scope: str, tick: Tick, layout: Layout, values: NDArray[np.float64]) -> Frame:
        return Frame("host", self.name, scope, tick.ts + self._shift, next(self._sequence), layout, values)

    def _named(self, layout: Layout) -> Layout:
        if id(layout) not in self._layouts:
            rows = [f"{self._program(row.partition('[')[0])}[{row.partition('[')[2]}" for row in layout.rows]
            names = [self._program(name) for name in layout.names]
            rows += [f"{name}[{640 + number}@1]" for number, name in enumerate(self._own)]
            names += self._own
            commands, users, containers = zip(*(STARTED.get(name, ("", "root", "")) for name in names), strict=True)
            told = make_layout(rows, names, layout.features, commands, users=users, containers=containers)
            self._layouts[id(layout)] = layout, told
        return self._layouts[id(layout)][1]

    def _with_own(self, tick: Tick) -> NDArray[np.float64]:
        uses = [[each.get(feature, 0.0) for feature in tick.layout.features] for each in self._own.values()]
        own = np.array(uses).reshape(-1, tick.values.shape[1])
        return np.concatenate([tick.values, own * self._of_own.lognormal(0.0, 0.1, own.shape)])

    def _program(self, name: str) -> str:
        role, _, number = name.partition("-")
        if role not in PROGRAMS or not number:
            return name
        return PROGRAMS[role][int(number) % len(PROGRAMS[role])]

    def _agent(self, processes: int) -> NDArray[np.float64]:
        values = {
            "cpu_ratio": 0.003 * self._random.lognormal(0.0, 0.1),
            "memory_rss_bytes": 41e6,
            "tick_duration_s": 0.004 * self._random.lognormal(0.0, 0.2),
            "publish_duration_s": 0.002 * self._random.lognormal(0.0, 0.3),
            "processes": float(processes),
            "held_files": 7.0 * processes,
        }
        return np.array([[values.get(feature, 0.0) for feature in AGENT_FEATURES]])


class Shop:
    """The application: its performance at each tick of a host."""

    def __init__(self) -> None:
        self._random = np.random.default_rng(7)
        self._sequence = count(1)
        self._waited: list[float] = []
        self._measured = -np.inf

    def frames(self, host: Frame) -> list[Frame]:
        """The performance of the interval that ends at this tick of the host itself; none where no interval ends."""
        of = dict(zip(host.layout.features, host.values[0].tolist(), strict=True))
        self._waited.append(of["pressure_cpu_some_ratio"])
        if host.ts - self._measured < INTERVAL_S - 0.5:
            return []
        waited = float(np.mean(self._waited))
        self._waited.clear()
        self._measured = host.ts
        load = self._random.normal(0.0, 1.0)
        values = {
            "response_time_mean_s": 0.04 + 1.2 * waited + 0.001 * self._random.normal(),
            "throughput_per_s": (400.0 + 15.0 * load) / (1.0 + waited),
        }
        layout = make_layout((APPLICATION,), (APPLICATION,), values)
        measured = np.array([[*values.values()]])
        return [Frame("application", APPLICATION, "performance", host.ts, next(self._sequence), layout, measured)]


class Pool:
    """Members that do what the load asks for, all alike; its ticks are those of a host.

    Parameters:
        key: what it is called.
        members: their ids, and their names.
        features: what is usual of each.
        seed: of chance.
        begins: of the scene, seconds since the Unix epoch.
        script: what happens to members.

    """

    def __init__(
        self,
        key: str,
        members: Mapping[str, str],
        features: Mapping[str, float],
        *,
        seed: int,
        begins: float,
        script: Script,
    ) -> None:
        self._key = key
        self._layout = make_layout(tuple(members), tuple(members.values()), features)
        self._usual = np.array([*features.values()])
        self._held = np.array([feature in _HELD for feature in features])
        self._troubles = [one for one in script.troubles if one.key == key]
        self._begins = begins
        self._random = np.random.default_rng(seed)
        self._sequence = count(1)
        self._load = 1.0
        self._own = np.ones((len(members), len(features)))

    def frame(self, ts: float) -> Frame:
        """Of the next tick."""
        self._load += 0.05 * (1.0 - self._load) + 0.03 * self._random.normal()
        self._own += 0.3 * (1.0 - self._own) + 0.08 * self._random.normal(size=self._own.shape)
        does = np.where(self._held, 1.0 + 0.1 * (self._own - 1.0), np.maximum(self._load * self._own, 0.05))
        for one in self._troubles:
            since = ts - self._begins - one.start_s
            if not 0.0 <= since < one.end_s - one.start_s:
                continue
            member = list(self._layout.names).index(one.name)
            match one.kind:
                case "busy":
                    does[member, 0] = 0.95 / self._usual[0]
                case "stuck":
                    does[member, ~self._held] = 0.0
                case "leak":
                    does[member, self._held] *= 1.0 + one.strength * since
        values = does * self._usual
        return Frame("pool", self._key, "member", ts, next(self._sequence), self._layout, values)


_HELD: Final = ("memory_rss_bytes", "descriptors")
"""Features that say what a member holds, whatever it does."""


class Fleet:
    """All that is simulated.

    Parameters:
        script: what happens.
        seeds: of chance, by host.
        begins: when the scene does, seconds since the Unix epoch.
        interval_s: from one tick to the next.

    """

    def __init__(
        self, script: Script, seeds: Mapping[str, int], begins: float, interval_s: float = KIND.interval_s
    ) -> None:
        self.interval_s = interval_s
        self.hosts = [Host(name, seed, begins, script, interval_s) for name, seed in seeds.items()]
        self._shop = Shop()
        self._pools_from = begins - POOLS_BEFORE_S
        self._service = Service(SERVICE, SERVED_BY[0], begins, script.held)
        self._begins = begins
        self._requests_from = begins - REQUESTS_BEFORE_S
        threads = {
            f"java[812@9931]/http-nio-8080-exec-{number}[{815 + number}@9940]": f"java/http-nio-8080-exec-{number}"
            for number in range(1, 13)
        }
        does = {
            "cpu_user_ratio": 0.12,
            "cpu_system_ratio": 0.03,
            "cpu_wait_ratio": 0.01,
            "switches_voluntary_per_s": 90.0,
        }
        replicas = [f"{('web-1', 'cache-1')[number % 2]}/checkout-{number}" for number in range(6)]
        holds = {"cpu_ratio": 0.35, "memory_rss_bytes": 2.1e8, "descriptors": 140.0, "requests_per_s": 60.0}
        self.pools = [
            Pool(THREADS, threads, does, seed=11, begins=begins, script=script),
            Pool(REPLICAS, dict(zip(replicas, replicas, strict=True)), holds, seed=12, begins=begins, script=script),
        ]

    def tick(self) -> list[list[Frame]]:
        """What is published at the next one: of each host its own frames, with the first those of what is no host."""
        first, *others = [host.frames() for host in self.hosts]
        ts = first[1].ts
        pools = [pool.frame(ts) for pool in self.pools] if ts >= self._pools_from else []
        tracing = self._service.tracing(ts) if ts >= self._begins else []
        return [[*first, *self._shop.frames(first[1]), *pools, *tracing], *others]

    def requests(self, ts: float) -> list[Request]:
        """What is traced in the second before."""
        return self._service.requests(ts) if ts >= self._requests_from else []


_MORE: Final = (
    "cpus",
    "cpu_busy_ratio",
    "cpu_steal_ratio",
    "memory_available_bytes",
    "swap_used_bytes",
    "pressure_cpu_full_ratio",
    "pressure_io_full_ratio",
    "pressure_memory_full_ratio",
)
"""What the simulated machines do not have."""


def _more(host: NDArray[np.float64]) -> NDArray[np.float64]:
    of = dict(zip(HOST_FEATURES, host[0].tolist(), strict=True))
    busy = min(of["cpu_user_ratio"] + of["cpu_system_ratio"], 1.0)
    full = (0.0, 0.6 * of["pressure_io_some_ratio"], 0.5 * of["pressure_memory_some_ratio"])
    return np.array([[KIND.cores, busy, 0.0, max(16e9 - of["memory_used_bytes"], 1e9), 0.0, *full]])


@dataclass(frozen=True, slots=True)
class Played:
    """A scene that has been played; its servers run until the context ends.

    Attributes:
        url: Prometheus's.
        bus: the file of the worker's.
        started: when the worker did, seconds since the Unix epoch.
        begins: when it began, seconds since the Unix epoch.
        ends: when it ended.

    """

    url: str
    bus: Path
    started: float
    begins: float
    ends: float


@contextmanager
def playing(folder: Path, script: Script, seeds: Mapping[str, int], scrape_s: float = 1.0) -> Iterator[Played]:
    """Play a scene to its end."""
    learns_s = LEARNS_S
    for attempt in count():
        with _learned(folder / str(attempt), script, seeds, scrape_s, learns_s) as (played, bus, fleet):
            late_s = time.time() - played.begins
            if late_s > LATE_S:
                learns_s = 1.5 * (learns_s + late_s)
                continue
            time.sleep(max(-late_s, 0.0))
            ends = _play(bus, script, fleet, played.begins)
            # Of what Prometheus has read before, the lag alone may tell that there was nothing yet.
            newest = f'min(laggard_frame_timestamp_seconds{{host!=""}}) >= {ends:.3f}'
            # An interval is judged once its hosts are past its end.
            judged = f"min(laggard_frame_timestamp_seconds{{application!=''}}) >= {ends - 2 * INTERVAL_S:.3f}"
            shown = f"{newest} and {judged} and sum(laggard_lag_records) == 0"
            awaited(partial(query, played.url, shown), within_s=120)
            yield replace(played, ends=time.time())
            return


@contextmanager
def _learned(
    folder: Path, script: Script, seeds: Mapping[str, int], scrape_s: float, learns_s: float
) -> Iterator[tuple[Played, EmbeddedBus, Fleet]]:
    """Start the servers of a scene that begins after `learns_s`, and let the worker learn what comes before."""
    folder.mkdir()
    started = time.time()
    path = folder / "laggard.db"
    served = f"{APPLICATION}={' '.join(SERVED_BY)}"
    with (
        running_worker(path, operators=OPERATORS, applications_hosts=served) as (address, _),
        EmbeddedBus(path) as bus,
    ):
        config: dict[str, Any] = {
            "global": {"scrape_interval": f"{scrape_s:g}s", "scrape_timeout": f"{scrape_s:g}s"},
            "scrape_configs": [
                {"job_name": "laggard", "static_configs": [{"targets": [address], "labels": dict(LABELS)}]}
            ],
        }
        with running_prometheus(folder / "prometheus", config) as url:
            begins = time.time() + learns_s
            fleet = Fleet(script, seeds, begins)
            for records in learned(fleet):
                bus.append(records)
            of_hosts = f'laggard_model_age_seconds{{operator=~"gaussian|regression"}} > {BEFORE_S - 10 - 3 * GRACE_S}'
            of_pools = f'laggard_model_age_seconds{{operator="covariance"}} > {POOLS_BEFORE_S - 10}'
            of_requests = f'laggard_model_age_seconds{{operator="requests"}} > {REQUESTS_BEFORE_S - 30}'
            known = (
                f"count({of_hosts}) == {2 * len(fleet.hosts) + 1} and count({of_pools}) == {len(fleet.pools)} "
                f"and count({of_requests}) == 1"
            )
            awaited(lambda: query(url, known), within_s=240)  # on a machine that is busy
            yield Played(url, path, started, begins, begins), bus, fleet


def _play(bus: EmbeddedBus, script: Script, fleet: Fleet, begins: float) -> float:
    """Publish what happens at its pace, later by as much as the models took too long to learn.

    Gives the time from which on all hosts have a frame that is the last.
    """
    late_s = max(time.time() - begins, 0.0)  # caught up at once, a trouble would be between two scrapes
    for happened in happening(script, fleet, begins):
        time.sleep(max(happened.due + late_s - time.time(), 0.0))
        for records in happened.records:
            bus.append(records)
    return happened.every_host_until - 0.001  # in whole milliseconds


@dataclass(frozen=True, slots=True)
class Happened:
    """What is published at a tick.

    Attributes:
        due: when.
        every_host_until: the time of the oldest host's frame.
        records: what is appended together.

    """

    due: float
    every_host_until: float
    records: list[list[Outgoing]]


def learned(fleet: Fleet) -> Iterator[list[Outgoing]]:
    """What the models learn from, before the scene begins, a hundred ticks at a time; not live."""
    ticks = round(BEFORE_S / fleet.interval_s)
    for first in range(0, ticks, 100):
        records = []
        for _ in range(min(100, ticks - first)):
            frames = [frame for frames in fleet.tick() for frame in frames]
            requests = fleet.requests(max(frame.ts for frame in frames))
            records += [*map(_outgoing, frames), *map(_outgoing, requests)]
        yield [replace(record, headers=((REPLAY_HEADER, b""),)) for record in records]


def happening(script: Script, fleet: Fleet, begins: float) -> Iterator[Happened]:
    """What is published in a scene, tick by tick."""
    marks = sorted((begins + at_s, host) for at_s, host in script.marks)
    junk = begins + script.junk_s
    due = begins
    ends = begins + script.lasts_s - fleet.interval_s + KIND.interval_s
    while due < ends:  # all of it, however late it is
        tick = fleet.tick()
        times = [frame.ts for frames in tick for frame in frames]
        due = max(times)
        records = [[_outgoing(frame) for frame in frames] for frames in tick]
        records.append([_outgoing(request) for request in fleet.requests(due)])
        if marks and due >= marks[0][0]:
            at, name = marks.pop(0)
            mark = Mark(name, at, "it is slow", round(at * 1e6))
            records.append([Outgoing(TOPICS.name(COUNTERS), name, encode(mark), at)])
        if due >= junk:
            late = replace(tick[0][0], ts=due - 30.0, sequence=tick[0][0].sequence + 10**6)
            records.append([Outgoing(TOPICS.name(COUNTERS), late.key, b"junk", due), _outgoing(late)])
            junk = float("inf")
        yield Happened(due, min(times), [each for each in records if each])


def _outgoing(record: Frame | Request) -> Outgoing:
    if isinstance(record, Request):
        return Outgoing(TOPICS.name(REQUESTS), record.service, encode(record), record.ts)
    return Outgoing(TOPICS.name(TOPIC_OF[record.keyed_by]), record.key, encode(record), record.ts)
