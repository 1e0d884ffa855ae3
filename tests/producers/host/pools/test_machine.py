"""Pools of a machine that is made of files."""

from __future__ import annotations

import math
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from laggard.producers.host import processes, thread
from laggard.producers.host.agent import AGENT_FEATURES, Agent
from laggard.producers.host.pools.pools import Pools
from laggard.producers.host.processes import ProcessTable

FORKED = 0x400040
"""Flags of a process that was forked and has called no exec."""

EXECED = 0x400000


class Looks:
    """A table and the pools in it, tick by tick."""

    def __init__(self, machine, time, *, descriptor_limit=None, **told):
        self.time = time
        self.pools = Pools(time.clock, "web-1", **told)
        watches = self.pools.watches_threads
        self.table = ProcessTable(
            time.clock, 1.0, root=str(machine.root), watches_threads=watches, descriptor_limit=descriptor_limit
        )
        self.values = np.empty(0)

    def look(self, after_s=1.0):
        self.time.pass_(after_s)
        layout, self.values = self.table.read()
        found = {each.key: each for each in self.pools.read(self.table, layout, self.values)}
        for each in found.values():
            assert each.values.shape == (len(each.layout.rows), len(each.layout.features))
            assert not each.values.flags.writeable
        return found

    def rows(self, key):
        found = self.look()[key]
        return {
            row: dict(zip(found.layout.features, values, strict=True))
            for row, values in zip(found.layout.rows, found.values.tolist(), strict=True)
        }


@pytest.fixture
def looks(machine, time):
    made = []

    def new(**told):
        made.append(Looks(machine, time, **told))
        return made[-1]

    yield new
    for each in made:
        each.table.close()


def fork(machine, parent, pids, **fields):
    for pid in pids:
        machine.run(pid, **{"parent": parent, "flags": FORKED, **fields})


def title(machine, pid, text):
    machine.write(f"{pid}/cmdline", text)


def test_prefork_workers_have_all_that_their_processes_have(machine, looks):
    machine.run(7, comm=b"gunicorn", flags=EXECED)
    fork(machine, 7, (8, 9, 10), comm=b"gunicorn")
    one = looks()
    found = one.look()
    assert list(found) == ["web-1/gunicorn"]
    pool = found["web-1/gunicorn"]
    assert set(pool.layout.rows) == {f"gunicorn[7@50]/gunicorn[{pid}@50]" for pid in (8, 9, 10)}
    assert set(pool.layout.names) == {"gunicorn"}
    assert pool.layout.features == processes.FEATURES
    machine.run(9, rchar=5000, threads=1)
    row = one.rows("web-1/gunicorn")["gunicorn[7@50]/gunicorn[9@50]"]
    assert row["io_read_characters_per_s"] == 5000
    assert one.pools.count == 1
    assert one.pools.members == 3
    assert one.look()["web-1/gunicorn"].layout is pool.layout, "names that stay are not packed anew"


@pytest.mark.parametrize(
    ("parent", "children"),
    [
        ({"comm": b"make"}, {"comm": b"make", "flags": EXECED}),  # a recursive one
        ({"comm": b"systemd"}, {"comm": b"agetty", "flags": EXECED}),
        ({"comm": b"systemd"}, {"comm": b"app"}),  # of a parent that ended: init has them now
        ({"comm": b"bash"}, {"comm": b"bash"}),
        ({"comm": b"cron"}, {"comm": b"cron"}),
        ({"comm": b"kthreadd", "flags": 0x200040}, {"comm": b"kworker/0:1", "flags": 0x200040}),
        ({"comm": b"work"}, {"comm": b"work", "state": "Z"}),
    ],
)
def test_what_only_has_a_parent_in_common_is_no_pool(machine, looks, parent, children):
    machine.run(7, **parent)
    fork(machine, 7, range(8, 16), **children)
    assert looks().look() == {}


def test_workers_that_are_called_otherwise_run_the_same_file(machine, looks):
    machine.run(7, comm=b"gunicorn: maste")
    fork(machine, 7, (8, 9, 10), comm=b"gunicorn: worke")
    for pid in (7, 8, 9, 10):
        (machine.root / str(pid) / "exe").symlink_to("/usr/bin/python3")
    assert list(looks().look()) == ["web-1/gunicorn"]


def test_titles_tell_workers_apart_only_where_they_may_be_looked_at(machine, looks, time):
    machine.run(7, comm=b"postgres")
    fork(machine, 7, range(8, 15), comm=b"postgres", start=9000)
    title(machine, 7, "/usr/bin/postgres\0-D\0data")
    for pid, text in enumerate(
        ["postgres: checkpointer", "postgres: walwriter", *["postgres: shop orders [local] idle"] * 5], 8
    ):
        title(machine, pid, text)
    one = looks()
    found = one.look()
    assert {key: len(each.values) for key, each in found.items()} == {"web-1/postgres/shop orders": 5}
    assert len(looks(titles=False).look()["web-1/postgres"].values) == 7


def test_a_title_that_comes_late_counts(machine, looks, time):
    machine.run(7, comm=b"nginx")
    fork(machine, 7, (8, 9, 10), comm=b"nginx", start=9900)
    for pid in (7, 8, 9, 10):
        title(machine, pid, "nginx: master process nginx")
    one = looks()
    assert one.look() == {}
    for pid in (8, 9, 10):
        title(machine, pid, "nginx: worker process")
    assert list(one.look(9.0)) == ["web-1/nginx/worker process"]


def test_several_parents_have_one_pool_and_are_told_apart(machine, looks):
    for parent in (7, 20):
        machine.run(parent, comm=b"a/b")
        fork(machine, parent, range(parent + 1, parent + 4), comm=b"a/b")
    rows = looks().look()["web-1/a:b"].layout.rows
    assert {row.split("/")[0] for row in rows} == {"a:b[7@50]", "a:b[20@50]"}
    assert {row.count("/") for row in rows} == {1}


def test_who_calls_exec_or_gets_another_parent_leaves(machine, looks):
    machine.run(7, comm=b"app")
    fork(machine, 7, range(8, 13), comm=b"app")
    one = looks()
    assert len(one.look()["web-1/app"].values) == 5
    machine.run(8, flags=EXECED)
    assert len(one.look()["web-1/app"].values) == 4
    machine.run(9, parent=1)
    assert len(one.look()["web-1/app"].values) == 3
    machine.run(10, state="Z")
    assert len(one.look()["web-1/app"].values) == 2
    for pid in (7, 11, 12):
        machine.end(pid)
    assert len(one.look()["web-1/app"].values) == 0
    assert (one.pools.count, one.pools.members) == (0, 0)


@pytest.mark.parametrize(("interval_s", "ticks"), [(1.0, 120), (50.0, 3), (300.0, 3)])
def test_a_pool_that_has_lost_all_members_is_empty_for_a_while(machine, looks, interval_s, ticks):
    machine.run(7, comm=b"app")
    fork(machine, 7, (8, 9, 10), comm=b"app")
    one = looks()
    features = one.look()["web-1/app"].layout.features
    for pid in (8, 9, 10):
        machine.end(pid)
    found = [one.look(interval_s) for _ in range(ticks + 1)]
    assert [[len(each["web-1/app"].values), each["web-1/app"].layout.features] for each in found[:-1]] == [
        [0, features]
    ] * ticks
    assert found[-1] == {}


def test_a_pool_whose_members_come_again_is_empty_no_longer(machine, looks):
    machine.run(7, comm=b"app")
    one = looks()
    counts = []
    for _ in range(2):
        fork(machine, 7, (8, 9, 10), comm=b"app")
        counts.append(len(one.look(20.0)["web-1/app"].values))
        for pid in (8, 9, 10):
            machine.end(pid)
        counts.append(len(one.look()["web-1/app"].values))
    assert counts == [3, 0, 3, 0]


def serve(machine, pid=7, comm=b"java", threads=3, name="exec-{}"):
    machine.run(pid, comm=comm, threads=threads + 1)
    for number in range(1, threads + 1):
        machine.thread(pid, pid * 100 + number, comm=name.format(number))


def test_threads_of_a_named_process_by_the_pattern_of_their_names(machine, looks):
    serve(machine)
    machine.thread(7, 790, comm="GC")
    machine.run(7, threads=5)
    serve(machine, 8, b"other")
    one = looks(threads=("jav?",))
    one.look()
    found = one.look()
    assert list(found) == ["web-1/java/exec"]
    assert set(found["web-1/java/exec"].layout.rows) == {f"java[7@50]/exec-{n}[70{n}@50]" for n in (1, 2, 3)}
    assert found["web-1/java/exec"].layout.names == ("java/exec",) * 3
    assert found["web-1/java/exec"].layout.features == thread.FEATURES
    machine.thread(
        7, 702, run_ns=500_000_000, wait_ns=250_000_000, user=20, system=5, faults_minor=8, faults_major=2,
        voluntary=6, involuntary=4, rchar=100, wchar=50, read=4096, write=8192, state="R",
    )  # fmt: skip
    machine.run(7)
    one.time.pass_(1.0)
    rows = one.rows("web-1/java/exec")
    row = rows["java[7@50]/exec-2[702@50]"]
    assert row.pop("cpu_user_ratio") == pytest.approx(0.2, abs=0.001)
    assert row.pop("cpu_system_ratio") == pytest.approx(0.05, abs=0.001)
    assert math.isnan(row.pop("io_delay_ratio"))
    assert row == {
        "cpu_wait_ratio": 0.125,
        "page_faults_minor_per_s": 4,
        "page_faults_major_per_s": 1,
        "switches_voluntary_per_s": 3,
        "switches_involuntary_per_s": 2,
        "io_read_characters_per_s": 50,
        "io_write_characters_per_s": 25,
        "io_read_bytes_per_s": 2048,
        "io_write_bytes_per_s": 4096,
        "running_ratio": 1,
        "blocked_ratio": 0,
    }
    idle = rows["java[7@50]/exec-1[701@50]"]
    assert all(value == 0 for name, value in idle.items() if name != "io_delay_ratio")


def test_first_rates_are_of_threads_that_have_just_begun_only(machine, looks):
    serve(machine)
    one = looks(threads=("java",))
    one.look()
    rows = one.rows("web-1/java/exec")
    assert all(math.isnan(row["switches_voluntary_per_s"]) for row in rows.values())
    machine.run(7, threads=6)
    machine.thread(7, 704, comm="exec-4", start=10_250, voluntary=10)
    machine.thread(7, 705, comm="exec-5", voluntary=10)
    rows = one.rows("web-1/java/exec")
    assert rows["java[7@50]/exec-1[701@50]"]["switches_voluntary_per_s"] == 0
    assert rows["java[7@50]/exec-4[704@10250]"]["switches_voluntary_per_s"] == 10
    assert math.isnan(rows["java[7@50]/exec-5[705@50]"]["switches_voluntary_per_s"]), "it began before, unseen"


def test_counters_that_go_backwards_have_no_rate(machine, looks):
    serve(machine)
    one = looks(threads=("java",))
    one.look()
    one.look()
    machine.thread(7, 701, voluntary=10)
    machine.run(7)
    assert one.rows("web-1/java/exec")["java[7@50]/exec-1[701@50]"]["switches_voluntary_per_s"] == 10
    machine.thread(7, 701, voluntary=5)
    machine.run(7)
    assert math.isnan(one.rows("web-1/java/exec")["java[7@50]/exec-1[701@50]"]["switches_voluntary_per_s"])


def test_threads_come_and_go_at_each_tick(machine, looks):
    serve(machine)
    one = looks(threads=("java",), descriptor_limit=0)  # a file that is held outlives its thread here
    one.look()
    one.look()
    for tick in range(20):
        machine.run(7, threads=5)
        machine.thread(7, 800 + tick, comm=f"exec-{tick + 10}", start=10_200 + 100 * tick, voluntary=tick)
        rows = one.rows("web-1/java/exec")
        assert len(rows) == 4
        assert rows[f"java[7@50]/exec-{tick + 10}[{800 + tick}@{10_200 + 100 * tick}]"][
            "switches_voluntary_per_s"
        ] == pytest.approx(tick)
        machine.end_thread(7, 800 + tick)


def test_a_number_that_is_used_again_is_another_thread(machine, looks):
    serve(machine)
    one = looks(threads=("java",), descriptor_limit=0)
    one.look()
    one.look()
    machine.end_thread(7, 702)
    machine.fields.pop(702)
    machine.thread(7, 702, comm="exec-9", start=10_250, voluntary=3, run_ns=7)
    machine.run(7)
    one.look()  # a file that is not held open is of whoever has the number now: who that is shows at the next look
    machine.run(7)
    rows = one.rows("web-1/java/exec")
    assert "java[7@50]/exec-9[702@10250]" in rows
    assert "java[7@50]/exec-2[702@50]" not in rows


def test_a_name_that_changes_changes_the_pool(machine, looks):
    serve(machine, threads=6, name="java")
    one = looks(threads=("java",))
    one.look()
    assert list(one.look()) == ["web-1/java/java"]
    for number in (1, 2, 3):
        machine.thread(7, 700 + number, comm=f"io worker/{number}")
    machine.run(7)
    found = one.look()
    assert sorted(found) == ["web-1/java/io worker", "web-1/java/java"]
    assert "java[7@50]/io worker:1[701@50]" in found["web-1/java/io worker"].layout.rows


def test_names_of_any_bytes(machine, looks):
    machine.run(7, comm=b"a/b c)1", threads=4)
    for number, name in enumerate([b"\xff) S 9-1", b"\xff) S 9-2", b"\xfe) S 9-3"], 701):
        machine.thread(7, number, comm=name)
    one = looks(threads=("a/b*",))
    one.look()
    [(key, pool)] = one.look().items()
    assert key == "web-1/a:b c)1/\ufffd) S 9"
    assert len(set(pool.layout.rows)) == 3


def test_a_process_that_changes_its_name_is_watched_by_that(machine, looks):
    serve(machine, comm=b"sh")
    one = looks(threads=("java",))
    one.look()
    assert one.look() == {}
    machine.run(7, comm=b"java")
    one.look()
    assert list(one.look()) == ["web-1/java/exec"]
    machine.run(7, comm=b"sh")
    held = one.table.held_files
    one.look()
    assert one.look()["web-1/java/exec"].layout.rows == ()
    assert one.table.held_files < held


def test_what_may_not_be_read_is_not_there(machine, looks):
    serve(machine)
    for tid in (701, 702, 703):
        (machine.root / f"7/task/{tid}/io").unlink()
    one = looks(threads=("java",))
    one.look()
    one.look()
    machine.thread(7, 701, voluntary=9)
    (machine.root / "7/task/701/io").unlink()
    machine.run(7)
    row = one.rows("web-1/java/exec")["java[7@50]/exec-1[701@50]"]
    assert row["switches_voluntary_per_s"] == 9
    assert math.isnan(row["io_read_bytes_per_s"])


@pytest.mark.parametrize("limit", [0, 5, 20, 1000])
def test_files_are_held_within_their_bound_and_all_closed(machine, looks, limit):
    before = len(list(Path("/proc/self/fd").iterdir()))
    serve(machine, threads=8)
    one = looks(threads=("java",), descriptor_limit=limit)
    for _ in range(3):
        machine.thread(7, 701, voluntary=1)
        machine.run(7)
        one.look()
        assert one.table.held_files <= limit
    assert len(one.look()["web-1/java/exec"].values) == 8
    one.table.close()
    assert one.table.held_files == 0
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_more_threads_than_are_watched_are_counted_and_told(machine, looks, caplog):
    serve(machine)
    machine.run(9, comm=b"java", threads=6000, start=60)
    one = looks(threads=("java",))
    one.look()
    assert list(one.look()) == ["web-1/java/exec"]
    assert one.pools.left_out == 5999
    one.look()
    assert caplog.messages == ["5999 pool members are skipped: the limits are 100 pools, 5000 members, and short names"]
    machine.run(9, threads=1)
    one.look()
    one.look()
    assert one.pools.left_out == 0


def test_with_many_threads_the_process_itself_loses_nothing(machine, looks):
    machine.run(7, comm=b"java", threads=601)
    for tid in range(1001, 1601):
        machine.thread(7, tid, comm=f"w-{tid}", voluntary=1)
    one = looks(threads=("java",))
    one.look()
    machine.run(7, voluntary=1)
    one.look()
    machine.run(7)
    machine.thread(7, 1001, voluntary=11)
    assert len(one.look()["web-1/java/w"].values) == 600
    column = processes.FEATURES.index("switches_voluntary_per_s")
    assert one.values[0, column] == 10, "it would be unknown if its threads were not watched"


def test_an_agent_publishes_pools_behind_its_host(machine, time):
    machine.write("loadavg", "1 2 3 1/2 3\n")
    machine.run(7, comm=b"nginx")
    fork(machine, 7, (8, 9, 10), comm=b"nginx")
    published: list[Any] = []
    agent = Agent(
        published.append, "web-1", 5.0, root=str(machine.root), clock=time.clock, pools=Pools(time.clock, "web-1")
    )
    agent.tick()
    agent.close()
    *others, pool = published[0]
    assert [each.keyed_by for each in others] == ["host"] * 4
    assert (pool.keyed_by, pool.key, pool.scope, pool.ts) == ("pool", "web-1/nginx", "member", others[0].ts)
    assert [each.sequence for each in published[0]] == [others[0].sequence + n for n in range(5)]
    told = dict(zip(AGENT_FEATURES, others[3].values[0].tolist(), strict=True))
    assert (told["pools"], told["pool_members"], told["pool_members_left_out"]) == (1, 3, 0)


def test_pools_that_fail_take_nothing_else_with_them(machine, time, caplog):
    class Failing(Pools):
        def read(self, *_):
            raise OSError("broken")

    machine.write("loadavg", "1 2 3 1/2 3\n")
    machine.run(7)
    published: list[Any] = []
    pools = Failing(time.clock, "web-1")
    agent = Agent(published.append, "web-1", 5.0, root=str(machine.root), clock=time.clock, pools=pools)
    for _ in range(2):
        agent.tick()
        time.pass_(5)
    agent.close()
    assert [len(frames) for frames in published] == [4, 3], "at first that no limit is near, too"
    told = dict(zip(AGENT_FEATURES, published[1][2].values[0].tolist(), strict=True))
    assert told["read_errors"] >= 1
    assert [record.getMessage() for record in caplog.records].count("cannot read the pools of web-1") == 1


def test_short_of_descriptors_it_holds_fewer_and_loses_no_member(machine, looks):
    serve(machine, threads=40)
    one = looks(threads=("java",), descriptor_limit=100_000)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = len(list(Path("/proc/self/fd").iterdir()))
    resource.setrlimit(resource.RLIMIT_NOFILE, (held + 60, hard))
    try:
        errors, sizes = 0, []
        for _ in range(8):
            machine.run(7)
            found = one.look()
            sizes.append(len(found["web-1/java/exec"].values) if found else 0)
            errors += one.table.read_errors
        assert one.table.held_files <= 60
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert errors > 0
    assert sizes[-1] == 40, sizes
