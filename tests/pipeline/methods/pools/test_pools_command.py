"""`laggard pools`: what a person and a program read of pools, of a bus and of what a replay told."""

from __future__ import annotations

import json
import math
import re
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from laggard.pipeline.cli.exits import NO_DATA, USAGE
from laggard.pipeline.core.bus import Outgoing
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.engine.runner import Runner
from laggard.pipeline.core.records import Frame, encode, make_layout
from laggard.pipeline.core.records.outputs import read_output, write_output
from laggard.pipeline.core.records.pools import PoolOutput, Ranked, pool_id
from laggard.pipeline.core.topics import POOLS, Topics
from laggard.pipeline.manifest import read_settings
from laggard.pipeline.methods.pools.dendrogram import level_output
from laggard.pipeline.methods.pools.method import pool_stage
from laggard.pipeline.methods.pools.queries import pool_at, standings
from tests.pipeline.methods.pools.trees import clustered

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from laggard.operators.covariance.results import Kind
    from tests.pipeline.conftest import Called

TOPICS = Topics()
KINDS: dict[str, Kind] = {"worker-3": "leak", "worker-7": "spike"}
TICK_S, TICKS, LEAKS_FROM = 5.0, 240, 150
FEATURES = ("cpu_user_ratio", "cpu_system_ratio", "memory_rss_bytes", "io_read_bytes_per_s")
LEAKING = "gunicorn[4713@99]"


def ticks(pool: str = "web-1/gunicorn", members: int = 8, begin: float = 0.0) -> Iterator[Frame]:
    """Workers that do alike; from a tick on the third one holds 1 % more at each."""
    draw = np.random.default_rng(5)
    rows = [f"gunicorn[{4711 + number}@99]" for number in range(members)]
    layout = make_layout(rows, ["gunicorn"] * members, FEATURES)
    for tick in range(TICKS):
        load = draw.gamma(4.0, 0.05)
        values = np.empty((members, len(FEATURES)))
        values[:, 0] = load * draw.normal(1.0, 0.1, members)
        values[:, 1] = 0.3 * load * draw.normal(1.0, 0.1, members)
        values[:, 2] = draw.normal(2.1e8, 2e6, members)
        values[:, 3] = 1e6 * load * draw.normal(1.0, 0.2, members)
        if members > 2:
            values[2, 2] *= 1.01 ** max(tick - LEAKS_FROM, 0)
        yield Frame("pool", pool, "member", begin + TICK_S * tick, tick, layout, values)


def append(bus: EmbeddedBus, frames: list[Frame]) -> None:
    bus.append([Outgoing(TOPICS.name(POOLS), each.key, encode(each), each.ts) for each in frames])


def drain(bus: EmbeddedBus) -> None:
    stage, stop = pool_stage(read_settings(None, {})), threading.Event()
    runner = Runner(bus, (stage,), TOPICS)
    (partition,) = bus.partitions(TOPICS.name(POOLS))
    while bus.committed(TOPICS.group(stage.name), partition) < bus.bounds(partition)[1]:
        runner.step(stop)
    stop.set()
    runner.run(stop)


@pytest.fixture
def call(nowhere: Path, laggard: Called) -> Called:
    """Runs `laggard pools` on a bus in this folder."""

    def call(*arguments: str) -> tuple[int, str, str]:
        return laggard("pools", *arguments, *([] if "--file" in arguments else ["--bus", str(nowhere / "laggard.db")]))

    return call


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bus on which a worker has compared the members of three pools, until now."""
    path = tmp_path_factory.mktemp("worked") / "laggard.db"
    begin = time.time() - TICK_S * (TICKS - 1)
    with EmbeddedBus(path) as bus:
        bus.create(TOPICS.specs())
        for pool, members in (("web-1/gunicorn", 8), ("checkout", 2)):
            append(bus, list(ticks(pool, members, begin)))
        drain(bus)
    return path


# Of a bus.


@pytest.fixture
def here(worked: Path, call: Called, tmp_path: Path) -> Called:
    (tmp_path / "laggard.db").symlink_to(worked)
    return call


def test_all_pools_are_listed_the_worst_first(here: Called) -> None:
    code, out, _ = here()
    assert code == 0
    head, first, second, *_, following = out.splitlines()
    assert head.split() == ["pool", "members", "worst", "score", "since"]
    assert re.match(r"web-1/gunicorn +8  gunicorn\S* \(leak\) +[\d.]+  20\d\d-\d\d-\d\d \d\d:\d\d:\d\d \(", first)
    assert re.match(r"checkout +2  - +-  -$", second)
    assert following.startswith("Next: `laggard pools web-1/gunicorn --bus")


def test_of_one_pool_all_is_told(here: Called) -> None:
    code, out, _ = here("web-1/gunicorn")
    assert code == 0
    assert re.match(r"web-1/gunicorn at 20\S+ \S+, \S+ \S+ ago: 8 members\n\n", out)
    assert re.search(r"^ +[\d.]+  `gunicorn` \(pid 4713\) leaks: it holds ", out, re.MULTILINE)
    assert re.search(r"^ {8}memory_rss_bytes +\S+ MB  the pool 2\d\d ± [\d.]+ MB$", out, re.MULTILINE)
    assert "\nThe pool: 8 compared\n● gunicorn[4713] leak " in out
    assert "Numbers: approximately unbiased p-values in percent" in out
    assert "Next: `laggard pools web-1/gunicorn --svg pool.svg --bus" in out


def test_programs_read_the_record(here: Called) -> None:
    code, out, _ = here("web-1/gunicorn", "--json")
    output = read_output(out, "out")
    assert isinstance(output, PoolOutput)
    assert (code, output.pool, output.members, output.whole, output.live) == (0, "web-1/gunicorn", 8, True, True)
    assert [(each.kind, each.rows) for each in output.ranking] == [("leak", (LEAKING,))]
    assert [leaf.label for leaf in output.levels[0].leaves if leaf.deviating] == [LEAKING]
    _, out, _ = here("--json")
    found = [json.loads(line) for line in out.splitlines()]
    assert [(each["pool"], each["members"], len(each["ranking"])) for each in found] == [
        ("web-1/gunicorn", 8, 1), ("checkout", 2, 0),
    ]  # fmt: skip


def test_a_past_moment_knows_nothing_of_what_came_later(here: Called, worked: Path) -> None:
    before = f"{time.time() - TICK_S * (TICKS - LEAKS_FROM + 10):.0f}"
    code, out, _ = here("web-1/gunicorn", "--at", before)
    assert code == 0
    assert "No member behaves unlike the others." in out
    _, out, _ = here("--at", before)
    assert "(leak)" not in out
    with EmbeddedBus(worked) as bus:
        stage = pool_stage(read_settings(None, {}))
        now, then = (pool_at(bus, TOPICS, stage, "web-1/gunicorn", ts) for ts in (None, float(before)))
    assert now is not None
    assert then is not None
    assert then.ts <= float(before) < now.ts
    code, _, err = here("web-1/gunicorn", "--at", "2001-01-01 00:00")
    assert code == NO_DATA
    assert "there are no records of pool web-1/gunicorn at 2001-01-01 00:00; its history goes from" in err
    code, _, err = here("--at", "2001-01-01 00:00")
    assert (code, "there are no records of pools up to 2001-01-01" in err) == (NO_DATA, True)
    code, _, err = here("--at", "2150-01-01")
    assert (code, "is in the future" in err) == (USAGE, True)
    code, _, err = here("--at", "soon")
    assert (code, "'soon' is not a time" in err) == (USAGE, True)


@pytest.mark.slow
def test_what_is_asked_is_what_the_worker_knows(worked: Path) -> None:
    with EmbeddedBus(worked) as bus:
        stage = pool_stage(read_settings(None, {}))
        asked = pool_at(bus, TOPICS, stage, "web-1/gunicorn")
        (partition,) = bus.partitions(TOPICS.name(POOLS))
        task = stage.task(partition)
        task.replay(bus.read(partition, 0))
    assert asked == task.whole("web-1/gunicorn"), "from a snapshot, or from the beginning"


@pytest.mark.parametrize(
    ("pool", "said"),
    [
        ("checkout", "checkout has 2 members; at least 3 are needed to find the one that deviates"),
        ("gunicorn", "there are no records of pool gunicorn; similar: web-1/gunicorn"),
        ("zzz", "recorded: checkout, web-1/gunicorn"),
    ],
    ids=["too small", "almost another one", "unlike any"],
)
def test_a_pool_of_which_nothing_can_be_told(here: Called, pool: str, said: str) -> None:
    code, _, err = here(pool)
    assert (code, said in err) == (NO_DATA, True)


def test_what_is_lacking_is_said(tmp_path: Path, call: Called) -> None:
    code, _, err = call()
    assert (code, "there are no records at" in err) == (NO_DATA, True)
    with EmbeddedBus(tmp_path / "laggard.db") as bus:
        bus.create(TOPICS.specs())
    for asked in ((), ("shop",)):
        code, _, err = call(*asked)
        assert code == NO_DATA
        assert "there are no records of pools; `laggard up --bus" in err
        assert "pools.threads names processes" in err
    code, _, err = call("--set", "pools.discover=false")
    assert "pools.discover = true lets the agent find prefork workers" in err


def test_a_pool_that_fell_silent_is_told_to_be(tmp_path: Path, call: Called) -> None:
    with EmbeddedBus(tmp_path / "laggard.db") as bus:
        bus.create(TOPICS.specs())
        append(bus, list(ticks(begin=time.time() - TICK_S * TICKS - 7200.0))[:20])
    _, out, _ = call()
    assert re.search(r"web-1/gunicorn +8 .*silent for 2\.\d h$", out, re.MULTILINE)


def test_members_of_all_hosts_are_counted(tmp_path: Path) -> None:
    with EmbeddedBus(tmp_path / "laggard.db") as bus:
        bus.create(TOPICS.specs())
        (whole, *_), (_, late, *_) = list(ticks(begin=1e9)), list(ticks(begin=1e9))
        rows = {"web-1": whole.layout.rows, "web-2": tuple(f"{row}b" for row in whole.layout.rows[:5])}
        layouts = {host: make_layout(ids, ids, FEATURES) for host, ids in rows.items()}
        told = [
            replace(frame, hosts=(host,), layout=layouts[host], values=frame.values[: len(rows[host])])
            for frame, host in ((whole, "web-1"), (whole, "web-2"), (late, "web-1"), (late, "web-1"))
        ]
        gone = told[2].values.copy()
        gone[0] = math.nan
        append(bus, [*told[:2], *(replace(each, values=gone) for each in told[2:])])
        (standing,) = standings(bus, TOPICS)
        assert (standing.pool, standing.members, standing.ts) == ("web-1/gunicorn", 7 + 5, late.ts)


# Of a file.


def output(members: int, *, ranked: bool = True, pool: str = "workers", ts: float = 1.7e9) -> PoolOutput:
    kinds = KINDS if ranked else {}
    ranking = tuple(
        Ranked((name,), name, kind, 3.0 - number, 6.1, 99.0, ts - 60.0, math.nan, 48, "", (), f"`{name}` deviates.")
        for number, (name, kind) in enumerate(kinds.items())
    )
    levels = (level_output("", clustered(members, kinds), kinds),) if members > 1 else ()
    identity = pool_id("covariance", pool, "here")
    return PoolOutput(ts, identity, "covariance", pool, members, 2400.0, not ranked, True, ranking, levels, False)


@pytest.fixture
def told(tmp_path: Path) -> str:
    path = tmp_path / "told.jsonl"
    lines = [output(320), output(12, ranked=False, pool="quiet"), output(1, ranked=False, pool="alone")]
    before = replace(lines[0], ts=lines[0].ts - 1000.0, ranking=lines[0].ranking[:1], levels=(), whole=False)
    path.write_text("".join(f"{write_output(each)}\n" for each in (before, *lines)) + "\n")
    return str(path)


def test_a_file_of_what_was_replayed_is_read(call: Called, told: str) -> None:
    code, out, _ = call("--file", told)
    assert code == 0
    assert [line.split()[:2] for line in out.splitlines()[1:4]] == [["workers", "320"], ["alone", "1"], ["quiet", "12"]]
    assert "silent" not in out
    assert f"Next: `laggard pools workers --file {told}`" in out
    code, out, _ = call("workers", "--file", told)
    assert code == 0
    assert "`worker-3` deviates." in out
    assert "\nThe pool: 320 compared\n● worker-3 " in out
    assert re.search(r"^  worker-\d+ and \d+ more +═", out, re.MULTILINE)
    assert "A double line is a cluster that is not drawn one by one" in out
    code, out, _ = call("workers", "--file", told, "--json")
    assert read_output(out, "out") == output(320)


def test_a_moment_of_a_file(call: Called, told: str) -> None:
    code, out, _ = call("workers", "--file", told, "--at", f"{1.7e9 - 500.0:.0f}")
    assert code == 0
    assert "`worker-3` deviates." in out
    assert "worker-7" not in out
    code, _, err = call("--file", told, "--at", "2001-01-01 00:00")
    assert (code, "it has no output on pools up to 2001-01-01" in err) == (NO_DATA, True)


def test_nothing_ranked_is_told(call: Called, told: str) -> None:
    code, out, _ = call("quiet", "--file", told)
    assert code == 0
    assert "No member behaves unlike the others." in out
    assert "The comparison is young: the pool has been compared for 40 min only" in out
    assert "●" not in out
    code, _, err = call("alone", "--file", told)
    assert (code, "alone has 1 member; at least 3 are needed" in err) == (NO_DATA, True)


def test_what_is_no_such_file_is_said(call: Called, tmp_path: Path, told: str) -> None:
    code, _, err = call("work", "--file", told)
    assert (code, f"{told}: there are no records of pool work; similar: workers" in err) == (NO_DATA, True)
    code, _, err = call("--file", str(tmp_path / "none"))
    assert (code, "No such file" in err) == (NO_DATA, True)
    (tmp_path / "bad").write_text("no JSON\n")
    code, _, err = call("--file", str(tmp_path / "bad"))
    assert (code, "bad:1" in err, "expected what `laggard replay --json` prints" in err) == (USAGE, True, True)


# Pictures.


def test_a_picture_is_written(call: Called, told: str, tmp_path: Path) -> None:
    code, out, err = call("workers", "--file", told, "--svg", str(tmp_path / "pool.svg"))
    assert (code, err) == (0, f"Wrote {tmp_path / 'pool.svg'}\n")
    assert "The pool: 320 compared" in out
    assert "Next:" not in out
    svg = (tmp_path / "pool.svg").read_text()
    root = ET.fromstring(svg)
    assert [each.text for each in root[:2]] == [
        f"workers at {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(1.7e9))}: 320 members",
        "`worker-3` deviates. `worker-7` deviates.",
    ]
    code, out, _ = call("workers", "--file", told, "--svg", "-")
    assert (code, out) == (0, svg)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--svg", "a.svg"], USAGE, "--svg draws one pool; expected a POOL"),
        (["workers", "--svg", "-", "--json"], USAGE, "only one of --json and --svg can go to standard output"),
        (["workers", "--svg", "none/a.svg"], USAGE, "none/a.svg: there is no such folder"),
        (["workers", "--svg", "/dev/full"], 1, "--svg /dev/full: No space left"),
        (["alone", "--svg", "a.svg"], NO_DATA, "cannot draw alone"),
    ],
)
def test_a_picture_that_cannot_be_drawn(call: Called, told: str, arguments: list[str], code: int, said: str) -> None:
    found, _, err = call(*arguments, "--file", told)
    assert (found, said in err) == (code, True), err
