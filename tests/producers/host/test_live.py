"""The agent on the machine that the tests run on: real processes, compared with what they do and with psutil."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from laggard.producers.host.agent import Agent
from laggard.producers.host.processes import FEATURES, ProcessTable
from laggard.producers.system.clock import Clock

pytestmark = pytest.mark.slow

OTHERS_UID = 65533  # not the user `nobody`, as whom servers run
"""An unused one."""


@pytest.fixture
def table():
    table = ProcessTable(Clock(), 0.5)
    yield table
    table.close()


@contextmanager
def child(program):
    """A Python process that runs this and, wherever it says `turn()`, waits to be told to go on."""
    turn = "import sys\ndef turn():\n    print(flush=True)\n    sys.stdin.readline()\n"
    process = subprocess.Popen(
        [sys.executable, "-S", "-E", "-c", turn + program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_for_turn(process):
    assert process.stdout.readline() == b"\n"


def take_turn(process):
    process.stdin.write(b"\n")
    process.stdin.flush()


def of(table, pid):
    """One tick: the row of this process."""
    layout, values = table.read()
    (index,) = (number for number, row in enumerate(layout.rows) if f"[{pid}@" in row)
    return dict(zip(FEATURES, values[index].tolist(), strict=True))


class Between:
    """Two ticks, and the amounts of the second one's rates.

    The table's own moments are between those that are taken here, and a machine may stand still between any two of
    them. So an amount is a range, which is narrow on a machine that does not.
    """

    def __init__(self, table, pid):
        self._table, self._pid = table, pid
        self._began = time.monotonic()
        of(table, pid)
        self._after_first = time.monotonic()
        self.row = {}
        self.least_s = self.most_s = 0.0

    def end(self):
        """The second tick."""
        before = time.monotonic()
        self.row = of(self._table, self._pid)
        self.least_s = before - self._after_first
        self.most_s = time.monotonic() - self._began

    def least(self, *rates):
        """Return the least amount of these rates."""
        return sum(self.row[rate] for rate in rates) * self.least_s

    def most(self, *rates):
        """Return the largest amount of these rates."""
        return sum(self.row[rate] for rate in rates) * self.most_s


def test_every_process_is_a_row_kernel_threads_too(table):
    begun_ticks, before = Clock().boottime() // 1e9 * os.sysconf("SC_CLK_TCK"), set(psutil.pids())
    layout, values = table.read()
    after = set(psutil.pids())
    started = {int(pid): int(at) for pid, at in (row.rsplit("[", 1)[1][:-1].split("@") for row in layout.rows)}
    assert before & after <= started.keys()
    # Others may begin and end meanwhile.
    assert all(started[pid] >= begun_ticks for pid in started.keys() - before - after)
    assert len(values) == len(started)
    own = layout.rows[[f"[{os.getpid()}@" in row for row in layout.rows].index(True)]
    name, start = psutil.Process().name(), psutil.Process().create_time() - psutil.boot_time()
    assert own.startswith(f"{name[:15]}[{os.getpid()}@")
    assert int(own.rsplit("@", 1)[1][:-1]) / os.sysconf("SC_CLK_TCK") == pytest.approx(start, abs=1.1)


def test_sizes_agree_with_psutil(table):
    with child("import socket\nopened = [socket.socket(), socket.socket(), open('/dev/null')]\nturn()\n") as process:
        wait_for_turn(process)
        row = of(table, process.pid)
        theirs = psutil.Process(process.pid)
        memory = theirs.memory_info()
        assert row["memory_rss_bytes"] == pytest.approx(memory.rss, rel=0.05)
        assert row["memory_virtual_bytes"] == memory.vms
        assert row["memory_shared_bytes"] == pytest.approx(memory.shared, rel=0.05)
        assert row["threads"] == theirs.num_threads() == 1
        assert row["descriptors"] == theirs.num_fds() == 6
        assert row["sockets"] == 2
        assert row["children"] == 0
        assert of(table, os.getpid())["children"] == len(psutil.Process().children())


def test_rates_agree_with_psutil(table):
    program = (
        "data = bytes(1 << 20)\n"
        "with open('/dev/null', 'wb') as out:\n    turn()\n    for _ in range(50): out.write(data)\n    turn()\n"
    )
    with child(program) as process:
        wait_for_turn(process)
        table.read()  # opens all files, which takes a while
        between, theirs = Between(table, process.pid), psutil.Process(process.pid)
        before, switches = theirs.io_counters(), theirs.num_ctx_switches().voluntary
        take_turn(process)
        wait_for_turn(process)
        time.sleep(0.2)
        between.end()
        after, switches = theirs.io_counters(), theirs.num_ctx_switches().voluntary - switches
        for feature, field in {
            "io_write_characters_per_s": "write_chars",
            "io_write_operations_per_s": "write_count",
            "io_read_operations_per_s": "read_count",
        }.items():
            amount = getattr(after, field) - getattr(before, field)
            assert 0.9 * between.least(feature) <= amount <= 1.1 * between.most(feature)
        assert after.write_chars - before.write_chars >= 50 << 20
        assert between.least("switches_voluntary_per_s") - 20 <= switches
        assert between.most("switches_voluntary_per_s") + 20 >= switches


def test_of_two_spinners_on_one_core_each_runs_or_waits(table):
    spin = f"import os\nos.sched_setaffinity(0, {{{min(os.sched_getaffinity(0))}}})\nturn()\nwhile True: pass\n"
    with child(spin) as process, child(spin) as other:
        for each in (process, other):
            wait_for_turn(each)
            take_turn(each)
        theirs = psutil.Process(process.pid)

        def spent_s():
            times = theirs.cpu_times()
            return times.user + times.system

        before, between, after = spent_s(), Between(table, process.pid), spent_s()
        deadline, inside_s = time.monotonic() + 60, 0.0
        while inside_s < 0.5:
            assert time.monotonic() < deadline
            time.sleep(0.1)
            inside_s = spent_s() - after
        between.end()
        used = ("cpu_user_ratio", "cpu_system_ratio")
        # psutil sees its share of the core, too.
        assert inside_s - 0.05 <= between.most(*used)
        assert between.least(*used) <= spent_s() - before + 0.05
        assert between.row["cpu_user_ratio"] > 0.8 * sum(between.row[ratio] for ratio in used)
        assert between.most("cpu_wait_ratio") > 0.15
        assert between.least(*used, "cpu_wait_ratio") <= 1.05 * between.most_s


def test_all_threads_count(table):
    program = (
        "import threading, time\n"
        "def work():\n    while True: time.sleep(0.001)\n"
        "turn()\n"
        "for _ in range(8): threading.Thread(target=work, daemon=True).start()\n"
        "turn()\n"
    )
    with child(program) as process:
        wait_for_turn(process)
        assert of(table, process.pid)["threads"] == 1
        take_turn(process)
        wait_for_turn(process)
        between = Between(table, process.pid)
        time.sleep(0.5)
        between.end()
        assert between.row["threads"] == 9
        # The first thread has none. Others may keep the eight from waking 1,000 times a second.
        assert between.most("switches_voluntary_per_s") > 50
        assert between.most("timeslices_per_s") > 50
        assert between.most("cpu_user_ratio", "cpu_system_ratio") > 0


def test_growth_is_seen(table):
    program = (
        "import os\nturn()\nheld = bytearray(os.urandom(1)) * (64 << 20)\n"
        "opened = [open('/dev/null') for _ in range(40)]\nturn()\n"
    )
    with child(program) as process:
        wait_for_turn(process)
        before, between = of(table, process.pid), Between(table, process.pid)
        take_turn(process)
        wait_for_turn(process)
        between.end()
        assert between.row["memory_rss_bytes"] - before["memory_rss_bytes"] == pytest.approx(64 << 20, rel=0.1)
        assert between.row["descriptors"] - before["descriptors"] == 40
        assert between.most("page_faults_minor_per_s") > 1000


def test_time_of_children_is_counted_when_they_are_waited_for(table):
    program = (
        "import os, time\nturn()\n"
        "if os.fork() == 0:\n    while time.process_time() < 0.2: pass\n    os._exit(0)\n"
        "os.wait()\nturn()\n"
    )
    with child(program) as process:
        wait_for_turn(process)
        between = Between(table, process.pid)
        take_turn(process)
        wait_for_turn(process)
        between.end()
        assert between.least("cpu_children_ratio") < 0.28
        assert between.most("cpu_children_ratio") > 0.12


def test_a_new_process_has_rates_at_its_first_tick(table):
    begun = time.monotonic()
    table.read()
    with child("import time\nwhile time.process_time() < 0.1: pass\nturn()\n") as process:
        wait_for_turn(process)
        row = of(table, process.pid)
        elapsed = max(0.5, time.monotonic() - begun)
        assert 0.08 / elapsed < row["cpu_user_ratio"] + row["cpu_system_ratio"] <= 1
        assert row["page_faults_minor_per_s"] > 0


def test_exec_is_a_new_row_with_rates(table):
    with child("import os, time\nturn()\nos.execv('/bin/cat', ['cat', '/dev/stdin'])\n") as process:
        wait_for_turn(process)
        of(table, process.pid)
        take_turn(process)
        # The run time of a process is counted at the kernel's ticks and when it leaves its CPU: until then it sleeps.
        deadline = time.monotonic() + 60
        name, faults, command = "python", 0.0, ""
        while (name, command) != ("cat", "cat /dev/stdin"):
            assert time.monotonic() < deadline, (name, command)
            layout, values = table.read()
            (index,) = (number for number, row in enumerate(layout.rows) if f"[{process.pid}@" in row)
            rate = values[index, FEATURES.index("page_faults_minor_per_s")]
            assert rate >= 0  # never NaN
            faults += rate
            name, command = layout.names[index], layout.commands[index]
        assert faults > 0


def test_io_of_a_child_is_not_its_parents(table, tmp_path):
    child_writes = "import os, subprocess\nsubprocess.run([sys.executable, '-c', PROGRAM, FILE], check=True)\n"
    program = "import sys; open(sys.argv[1], 'wb').write(b'x' * (8 << 20))"
    source = child_writes.replace("PROGRAM", repr(program)).replace("FILE", repr(str(tmp_path / "file")))
    with child(f"turn()\n{source}turn()\n") as process:
        wait_for_turn(process)
        of(table, process.pid)
        take_turn(process)
        wait_for_turn(process)
        assert of(table, process.pid)["io_write_characters_per_s"] * table._interval_s < 1 << 20


def test_a_zombie_is_a_row_and_no_error(table):
    process = subprocess.Popen([sys.executable, "-S", "-E", "-c", ""])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert of(table, process.pid)["memory_rss_bytes"] == 0
    assert of(table, process.pid)["cpu_user_ratio"] == 0
    assert table.read_errors == 0
    process.wait()


def test_short_lives_and_ticks_do_not_disturb_each_other(table):
    storm = "while :; do /bin/true; (/bin/true &) ; done"
    with subprocess.Popen(["/bin/sh", "-c", storm], stderr=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + 1
            while time.monotonic() < deadline:
                layout, values = table.read()
                assert len(set(layout.rows)) == len(values)
                cpu = values[:, FEATURES.index("cpu_user_ratio")]
                assert not (cpu < 0).any()
                # These ticks are a millisecond apart, and the kernel counts what runs by its own ticks, of some more.
                assert not (cpu > 100).any()
        finally:
            process.kill()
    assert table.read_errors == 0
    table.close()
    assert table.held_files == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="choosing the next pid takes root")
def test_a_pid_in_use_again_is_a_new_row(table):
    first = subprocess.Popen(["/bin/sleep", "60"])
    before = table.read()[0]
    assert sum(f"[{first.pid}@" in row for row in before.rows) == 1
    first.kill()
    first.wait()
    time.sleep(0.02)  # so that the start differs
    for _ in range(20):
        try:
            Path("/proc/sys/kernel/ns_last_pid").write_text(str(first.pid - 1))
        except OSError:
            pytest.skip("the next pid cannot be chosen here")
        second = subprocess.Popen(["/bin/sleep", "60"])
        if second.pid == first.pid:
            break
        second.kill()
        second.wait()
    else:
        pytest.skip("others were quicker")
    try:
        after, values = table.read()
        (index,) = (number for number, row in enumerate(after.rows) if f"[{first.pid}@" in row)
        assert after.rows[index] not in before.rows
        assert values[index, FEATURES.index("page_faults_minor_per_s")] > 0  # of its own life
    finally:
        second.kill()
        second.wait()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_counters_of_other_users_are_nan_where_they_may_not_be_read():
    row = apart(f"""
os.setgid({OTHERS_UID})
os.setuid({OTHERS_UID})
table = ProcessTable(Clock(), 0.5)
table.read()
time.sleep(0.1)
layout, values = table.read()
(index,) = (number for number, row in enumerate(layout.rows) if "[{os.getpid()}@" in row)
seen = dict(zip(layout.features, values[index].tolist()))
seen["unreadable"], seen["errors"] = table.unreadable_files, table.read_errors
""")
    assert math.isnan(row["io_read_bytes_per_s"])
    assert math.isnan(row["sockets"])
    assert row["descriptors"] > 0 or math.isnan(row["descriptors"])  # NaN before Linux 6.2
    assert row["memory_rss_bytes"] > 0
    assert row["cpu_user_ratio"] + row["cpu_system_ratio"] >= 0
    assert row["unreadable"] > 0
    assert row["errors"] == 0


def test_short_of_descriptors_the_agent_gives_some_back_and_goes_on():
    seen = apart("""
resource.setrlimit(resource.RLIMIT_NOFILE, (80, 80))
table = ProcessTable(Clock(), 0.5, descriptor_limit=1000)
table.read()
for _ in range(3):
    before = set(psutil.pids())
    layout, values = table.read()
    lasting = before & set(psutil.pids())
pids = {int(row.rsplit("[", 1)[1].split("@")[0]) for row in layout.rows}
seen = {"held": table.held_files, "files": len(os.listdir("/proc/self/fd")), "missing": len(lasting - pids)}
seen["errors"] = table.read_errors
""")
    assert 0 < seen["held"] < 45  # half of those that were free
    assert seen["files"] < 80
    assert seen["missing"] == seen["errors"] == 0


def test_running_out_of_files_at_the_first_process_still_leaves_half_of_them_open(tmp_path):
    # A process of many threads needs more files than there are, and is the only one here that any are held of.
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            (tmp_path / entry.name).symlink_to(entry)
    seen = apart(f"""
import threading
resource.setrlimit(resource.RLIMIT_NOFILE, (80, 80))
os.symlink(f"/proc/{{os.getpid()}}", f"{tmp_path}/{{os.getpid()}}")
done = threading.Event()
for _ in range(60):
    threading.Thread(target=done.wait).start()
table = ProcessTable(Clock(), 0.5, root="{tmp_path}", descriptor_limit=1000)
table.read()
layout, values = table.read()
seen = {{"rows": layout.rows, "held": table.held_files}}
done.set()
""")
    assert len(seen["rows"]) == 1
    assert 30 < seen["held"] < 45


@pytest.mark.parametrize("hidepid", [1, 2])
def test_hidden_processes_are_counted_where_possible(hidepid):
    with tempfile.TemporaryDirectory() as root:  # pytest's own are below one for its user alone
        Path(root).chmod(0o755)
        seen = hidden_by(hidepid, root)
    assert seen["rows"] == 1
    assert (seen["hidden"] > 1) == (hidepid == 1)  # with 2 they are not even listed
    assert seen["errors"] == 0


def hidden_by(hidepid, root):
    needs("unshare", "--mount", "mount", "-t", "proc", "-o", f"hidepid={hidepid}", "proc", root)
    program = f"""
os.setgid({OTHERS_UID})
os.setuid({OTHERS_UID})
table = ProcessTable(Clock(), 0.5, root="{root}")
for _ in range(3):
    layout, values = table.read()
seen = {{"rows": len(layout.rows), "hidden": table.unreadable_files, "errors": table.read_errors}}
"""
    mount = f"mount -t proc -o hidepid={hidepid} proc {root}"
    return apart(program, "unshare", "--mount", "sh", "-c", f'{mount} && exec "$0" "$@"')


def test_another_pid_namespace_is_read_without_the_clocks_of_this_one():
    needs("unshare", "--pid", "--fork", "true")
    seen = apart(
        """
opened = [os.open("/dev/null", os.O_RDONLY) for _ in range(500)]
table = ProcessTable(Clock(), 0.5, descriptor_limit=300)
begun = time.monotonic()
table.read()
read = time.monotonic()
spun = time.process_time() + 0.2
while time.process_time() < spun: pass
spun = time.monotonic()
layout, values = table.read()
ended = time.monotonic()
own = f"[{os.readlink('/proc/self')}@"  # by its pid outside, as this procfs belongs there
(index,) = (number for number, row in enumerate(layout.rows) if own in row)
row = dict(zip(layout.features, values[index].tolist()))
cpu = row["cpu_user_ratio"] + row["cpu_system_ratio"]
seen = {"rows": len(layout.rows), "least_s": cpu * (spun - read), "most_s": cpu * (ended - begun)}
seen |= {"descriptors": row["descriptors"], "errors": table.read_errors}
""",
        "unshare",
        "--pid",
        "--fork",
    )
    assert seen["rows"] > 1
    assert seen["least_s"] < 0.2 + seen["most_s"] - seen["least_s"] + 0.05
    assert seen["most_s"] > 0.15
    assert 500 < seen["descriptors"] < 900  # its own
    assert seen["errors"] == 0


def needs(*command):
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip(f"{command[0]} is not possible here")


def apart(program, *prefix):
    """Return what a program has `seen`, in a process of its own that it may spoil."""
    imports = (
        "import json, os, resource, time\nimport psutil\nfrom laggard.producers.system.clock import Clock\n"
        "from laggard.producers.host.processes import ProcessTable\n"
    )
    program = f"{imports}{program}\nprint(json.dumps(seen))\n"
    return json.loads(subprocess.run([*prefix, sys.executable, "-c", program], capture_output=True, check=True).stdout)


def test_what_a_sleeping_machine_costs():
    """Far above the goal, for machines and colleagues differ: this only catches a cost that runs away."""
    agent = Agent(lambda frames: None, "here", 0.5)
    agent.tick()
    begun = time.thread_time()
    for _ in range(5):
        agent.tick()
    cost_s = (time.thread_time() - begun) / 5
    processes = len(psutil.pids())
    agent.close()
    assert cost_s / processes < 500e-6
