"""A pool at work is recorded by the agent, as JSON lines that `laggard replay` reads, with what is true beside."""

from __future__ import annotations

import json
import math
import random
import re
import threading
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import compress
from typing import TYPE_CHECKING, Any, Final, Literal, TextIO, get_args

from laggard.pipeline.core.records import Frame, make_layout
from laggard.pipeline.core.records.json_lines import read_line, write_line
from laggard.pipeline.core.records.strict_json import json_number
from laggard.producers.host.agent import Agent
from laggard.producers.host.pools.pools import Pools
from laggard.producers.system.clock import Clock
from tests.evaluation.pools.lab.load import WAIT_MS, Item, items
from tests.evaluation.pools.lab.programs import POOLS
from tests.evaluation.pools.workers import spread

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from laggard.pipeline.core.records import Mark
    from laggard.producers.host.agent import Publish
    from tests.evaluation.pools.lab.programs import Pool

Fault = Literal["healthy", "leak", "descriptors", "spin", "stuck", "slow", "spike", "left", "replaced"]
"""The fault of a member from a random time on. It keeps the memory (`leak`) or a descriptor (`descriptors`) of each
item, computes for ever (`spin`), or waits for a lock for ever (`stuck`). It takes 300 ms longer for each item (`slow`),
or computes for 10 to 20 s (`spike`). It ends (`left`), or another one begins in its place, which is no trouble
(`replaced`)."""

FAULTS: Final[Mapping[str, Sequence[Fault]]] = {
    "prefork": ("healthy", "leak", "descriptors", "spin", "stuck", "slow", "spike", "left", "replaced"),
    # One that stands still while it holds the lock stops all others: it cannot be distinguished from them.
    "nginx": ("healthy", "replaced"),
    # The kernel counts memory and descriptors for whole processes: a leak of a thread shows only in its page faults.
    "java": ("healthy", "leak", "spin", "stuck", "slow", "spike", "left", "replaced"),
    # Python never replaces a thread that it lost.
    "python": ("healthy", "leak", "spin", "stuck", "slow", "spike", "left"),
}
"""The faults of each pool."""

MEMBERS: Final = (6, 12)
RATE_PER_S: Final = 5.0
"""Items of each member."""
ROUNDS: Final = 9000.0
"""The rounds of an item in the median, about 3 ms."""
ONSET: Final = (0.35, 0.6)
"""The bounds of the onset, as shares of the recording."""
SPIKE_S: Final = (10.0, 20.0)
WARM_S: Final = 5.0
"""The time for which the pool works before it is recorded."""
BEGUN_S: Final = 30.0
"""Within which the agent has to find the pool."""
INTERVAL_S: Final = 1.0
HOST: Final = "lab"

_ID = re.compile(r"\[(\d+)@\d+\]")


@dataclass(frozen=True)
class Truth:
    """The truth about a recording.

    Attributes:
        pool: the kind of pool.
        key: the key of its frames.
        members: the number of members at the beginning.
        fault: the fault of one of them.
        seed: the seed of the random numbers.
        row: the id of that member; empty if nothing goes wrong.
        begin_ts: the onset, in seconds since the Unix epoch; NaN if nothing goes wrong.
        end_ts: the end of the fault; NaN if it lasts to the end.

    """

    pool: str
    key: str
    members: int
    fault: Fault
    seed: int
    row: str = ""
    begin_ts: float = math.nan
    end_ts: float = math.nan


def record(pool: str, fault: Fault, seed: int, seconds: float, folder: Path) -> Path:
    """Let a member of a pool go wrong; which one, chance decides: it is whichever takes the item that does it.

    Returns:
        The recording; beside it is a file of the same name with `.truth.json`.

    Raises:
        TimeoutError: a program did not begin, or no member took the item.

    """
    draw = random.Random(f"{pool} {fault} {seed}")
    members = draw.randint(*MEMBERS)
    onset_s = draw.uniform(*ONSET) * seconds
    cause = Item(0.0, round(ROUNDS), 1000 * draw.uniform(*SPIKE_S) if fault == "spike" else WAIT_MS)
    file = _file(folder, pool, fault, seed)
    with POOLS[pool](members) as working, _load(working, seed, members), file.open("w") as written:
        time.sleep(WARM_S)
        watched = _Watched(working, written)
        with _agent(watched.publish, working):
            if not watched.begun.wait(BEGUN_S):
                raise TimeoutError(f"{watched.key}: expected frames of this pool within {BEGUN_S:g} s")
            if fault == "healthy":
                time.sleep(seconds)
            else:
                time.sleep(onset_s)
                working.give(fault, cause)
                time.sleep(seconds - onset_s)
        truth = Truth(pool, watched.key, members, fault, seed)
        if fault != "healthy":
            said = working.wait("fault")
            ends = [each["ts"] for each in working.said if "over" in each]
            truth = replace(
                truth, row=watched.rows[said["tid"]], begin_ts=said["ts"], end_ts=ends[0] if ends else math.nan
            )
    fields = asdict(truth)
    for name in ("begin_ts", "end_ts"):
        fields[name] = json_number(fields[name])
    _truth_of(file).write_text(json.dumps(fields) + "\n")
    return file


def record_all(folder: Path, seeds: Iterable[int], seconds: float, at_once: int) -> None:
    """All that can happen to each pool, a number at once; what a folder has already is kept.

    Raises:
        TimeoutError: as `record`.

    """
    cases = [(pool, fault, seed) for seed in seeds for fault in get_args(Fault) for pool in POOLS]
    cases = [each for each in cases if each[1] in FAULTS[each[0]] and not _truth_of(_file(folder, *each)).exists()]
    folder.mkdir(parents=True, exist_ok=True)
    spread(record, [(*each, seconds, folder) for each in cases], at_once)


def read(file: Path) -> tuple[Truth, list[Frame]]:
    """A recording.

    Raises:
        OSError: it is not there, or nothing is said of what is true of it.
        RecordError: a line is none.

    """
    said: dict[str, Any] = json.loads(_truth_of(file).read_text())
    said |= {name: math.nan for name in ("begin_ts", "end_ts") if said[name] is None}
    truth = Truth(**said)
    with file.open() as lines:
        records = [read_line(line, f"{file}:{number}") for number, line in enumerate(lines, 1)]
    return truth, [each for each in records if isinstance(each, Frame)]


def recordings(folder: Path) -> list[Path]:
    """All complete ones of a folder."""
    return [file for file in sorted(folder.glob("*.jsonl")) if _truth_of(file).exists()]


def _file(folder: Path, pool: str, fault: Fault, seed: int) -> Path:
    return folder / f"{pool}-{fault}-{seed}.jsonl"


def _truth_of(file: Path) -> Path:
    return file.with_suffix(".truth.json")


class _Watched:
    """Writes the frames of one pool, out of those that the agent publishes.

    Attributes:
        key: of the frames.
        rows: ids of all members that there ever were, by the number of the process or thread.
        begun: whether there are frames.

    """

    def __init__(self, pool: Pool, written: TextIO) -> None:
        self.key = f"{HOST}/{pool.key}"
        self.rows: dict[int, str] = {}
        self.begun = threading.Event()
        self._owner = f"{pool.process}[{pool.pid}@"  # others may run the same program
        self._written = written

    def publish(self, records: Sequence[Frame | Mark]) -> None:
        for frame in records:
            if not isinstance(frame, Frame) or frame.keyed_by != "pool" or frame.key != self.key:
                continue
            layout = frame.layout
            own = [row.startswith(self._owner) for row in layout.rows]
            if any(own) or self.rows:
                rows, names = tuple(compress(layout.rows, own)), tuple(compress(layout.names, own))
                mine = replace(frame, layout=make_layout(rows, names, layout.features), values=frame.values[own])
                self._written.write(write_line(mine) + "\n")
                self.rows |= {int(_ID.findall(row)[-1]): row for row in rows}
                self.begun.set()


@contextmanager
def _agent(publish: Publish, pool: Pool) -> Iterator[None]:
    """It runs as long as this lasts."""
    clock, stop = Clock(), threading.Event()
    pools = Pools(clock, HOST, threads=[pool.process])
    agent = Agent(publish, HOST, INTERVAL_S, clock=clock, pools=pools)
    runs = threading.Thread(target=agent.run, args=(stop,))
    runs.start()
    try:
        yield
    finally:
        stop.set()
        runs.join()


@contextmanager
def _load(pool: Pool, seed: int, members: int) -> Iterator[None]:
    """Items come as long as this lasts."""
    stop = threading.Event()
    began = time.monotonic()

    def give() -> None:
        for item in items(seed, RATE_PER_S * members, ROUNDS):
            if stop.wait(max(0.0, began + item.at_s - time.monotonic())):
                return
            pool.give("serve", item)

    giver = threading.Thread(target=give)
    giver.start()
    try:
        yield
    finally:
        stop.set()
        giver.join()
