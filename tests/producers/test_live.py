"""The agent on the machine that the tests run on: real processes, compared with what they do and with psutil."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from laggard.producers.agent import Agent
from laggard.producers.clock import Clock
from laggard.producers.processes import FEATURES, ProcessTable

OTHERS_UID = 65534
"""Nobody's."""


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


def test_every_process_is_a_row_kernel_threads_too(table):
    before = set(psutil.pids())
    layout, values = table.read()
    after = set(psutil.pids())
    pids = {int(row.rsplit("[", 1)[1].split("@")[0]) for row in layout.rows}
    assert before & after <= pids <= before | after
    assert len(values) == len(pids)
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
        of(table, process.pid)
        theirs = psutil.Process(process.pid)
        before, switches, begun = theirs.io_counters(), theirs.num_ctx_switches(), time.monotonic()
        take_turn(process)
        wait_for_turn(process)
        time.sleep(0.5)
        row = of(table, process.pid)
        elapsed = time.monotonic() - begun
        after, now = theirs.io_counters(), theirs.num_ctx_switches()
        for feature, field in {
            "io_write_characters_per_s": "write_chars",
            "io_write_operations_per_s": "write_count",
            "io_read_operations_per_s": "read_count",
        }.items():
            expected = (getattr(after, field) - getattr(before, field)) / elapsed
            assert row[feature] == pytest.approx(expected, rel=0.5)
        assert row["io_write_characters_per_s"] > 20 << 20
        assert row["switches_voluntary_per_s"] == pytest.approx(
            (now.voluntary - switches.voluntary) / elapsed, rel=0.5, abs=20
        )


def test_a_spinner_takes_a_core_or_waits_for_one(table):
    with child("turn()\nwhile True: pass\n") as process:
        wait_for_turn(process)
        take_turn(process)
        of(table, process.pid)
        begun, ticks = time.monotonic(), psutil.Process(process.pid).cpu_times()
        time.sleep(1)
        row = of(table, process.pid)
        elapsed, now = time.monotonic() - begun, psutil.Process(process.pid).cpu_times()
        spent = now.user + now.system - ticks.user - ticks.system
        used = row["cpu_user_ratio"] + row["cpu_system_ratio"]
        # On a machine that is busy it gets less than a core; what it gets, psutil sees too.
        assert used == pytest.approx(spent / elapsed, abs=0.06)
        assert used + row["cpu_wait_ratio"] == pytest.approx(1, abs=0.2)
        assert row["cpu_user_ratio"] > 0.8 * used


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
        of(table, process.pid)
        time.sleep(0.5)
        row = of(table, process.pid)
        assert row["threads"] == 9
        assert row["switches_voluntary_per_s"] > 500  # the first thread has none
        assert row["timeslices_per_s"] > 500
        assert row["cpu_user_ratio"] + row["cpu_system_ratio"] > 0


def test_growth_is_seen(table):
    program = (
        "import os\nturn()\nheld = bytearray(os.urandom(1)) * (64 << 20)\n"
        "opened = [open('/dev/null') for _ in range(40)]\nturn()\n"
    )
    with child(program) as process:
        wait_for_turn(process)
        before = of(table, process.pid)
        take_turn(process)
        wait_for_turn(process)
        after = of(table, process.pid)
        assert after["memory_rss_bytes"] - before["memory_rss_bytes"] == pytest.approx(64 << 20, rel=0.1)
        assert after["descriptors"] - before["descriptors"] == 40
        assert after["page_faults_minor_per_s"] > 1000


def test_time_of_children_is_counted_when_they_are_waited_for(table):
    program = (
        "import os, time\nturn()\n"
        "if os.fork() == 0:\n    while time.process_time() < 0.2: pass\n    os._exit(0)\n"
        "os.wait()\nturn()\n"
    )
    with child(program) as process:
        wait_for_turn(process)
        of(table, process.pid)
        begun = time.monotonic()
        take_turn(process)
        wait_for_turn(process)
        assert of(table, process.pid)["cpu_children_ratio"] * (time.monotonic() - begun) == pytest.approx(0.2, abs=0.08)


def test_a_new_process_has_rates_at_its_first_tick(table):
    table.read()
    with child("import time\nwhile time.process_time() < 0.1: pass\nturn()\n") as process:
        wait_for_turn(process)
        row = of(table, process.pid)
        assert 0.02 < row["cpu_user_ratio"] + row["cpu_system_ratio"] <= 1
        assert row["page_faults_minor_per_s"] > 0


def test_exec_is_a_new_row_with_rates(table):
    with child("import os, time\nturn()\nos.execv('/bin/cat', ['cat', '/dev/stdin'])\n") as process:
        wait_for_turn(process)
        of(table, process.pid)
        take_turn(process)
        # The run time of a process is counted at the kernel's ticks and when it leaves its CPU: until then it sleeps.
        deadline = time.monotonic() + 10
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
                assert not (cpu > 8).any()
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
held = table.held_files
for _ in range(3):
    before = set(psutil.pids())
    layout, values = table.read()
    lasting = before & set(psutil.pids())
pids = {int(row.rsplit("[", 1)[1].split("@")[0]) for row in layout.rows}
seen = {"held": held, "files": len(os.listdir("/proc/self/fd")), "missing": len(lasting - pids)}
seen["errors"] = table.read_errors
""")
    assert 0 < seen["held"] < 80
    assert seen["files"] < 80
    assert seen["missing"] == seen["errors"] == 0


@pytest.mark.parametrize("hidepid", [1, 2])
def test_processes_that_are_hidden_from_us_are_counted_where_they_can_be(tmp_path, hidepid):
    needs("unshare", "--mount", "mount", "-t", "proc", "-o", f"hidepid={hidepid}", "proc", str(tmp_path))
    program = f"""
os.setgid({OTHERS_UID})
os.setuid({OTHERS_UID})
table = ProcessTable(Clock(), 0.5, root="{tmp_path}")
for _ in range(3):
    layout, values = table.read()
seen = {{"rows": len(layout.rows), "hidden": table.unreadable_files, "errors": table.read_errors}}
"""
    mount = f"mount -t proc -o hidepid={hidepid} proc {tmp_path}"
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents[:2]:
        parent.chmod(0o755)
    seen = apart(program, "unshare", "--mount", "sh", "-c", f'{mount} && exec "$0" "$@"')
    assert seen["rows"] == 1
    assert (seen["hidden"] > 1) == (hidepid == 1)  # with 2 they are not even listed
    assert seen["errors"] == 0


def test_another_pid_namespace_is_read_without_the_clocks_of_ours():
    needs("unshare", "--pid", "--fork", "true")
    seen = apart(
        """
table = ProcessTable(Clock(), 0.5)
table.read()
spun = time.process_time() + 0.2
while time.process_time() < spun: pass
layout, values = table.read()
cpu = values[:, layout.features.index("cpu_user_ratio")]
seen = {"rows": len(layout.rows), "cpu": max(cpu), "held": table.held_files, "errors": table.read_errors}
seen["descriptors"] = max(values[:, layout.features.index("descriptors")])
""",
        "unshare",
        "--pid",
        "--fork",
    )
    assert seen["rows"] > 1
    assert 0.2 < seen["cpu"] < 1.3
    assert seen["descriptors"] > seen["held"]  # the program's own
    assert seen["errors"] == 0


def needs(*command):
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip(f"{command[0]} is not possible here")


def apart(program, *prefix):
    """What a program, in a process of its own that it may spoil, has `seen`."""
    imports = (
        "import json, os, resource, time\nimport psutil\nfrom laggard.producers.clock import Clock\n"
        "from laggard.producers.processes import ProcessTable\n"
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
