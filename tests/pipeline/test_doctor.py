"""The doctor's checks: of made-up machines, and of this one with a real bus and real parts."""

from __future__ import annotations

import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from laggard.pipeline.cli.exits import UNAVAILABLE
from laggard.pipeline.core.bus import Commit, Outgoing
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.claims import Claim, Holder
from laggard.pipeline.core.records import Frame, encode, make_layout
from laggard.pipeline.core.topics import COUNTERS, Topics
from laggard.pipeline.doctor import Finding, installation, machine, profilers, tracing
from laggard.pipeline.doctor.pools import examine_pools
from laggard.pipeline.doctor.sources import examine_hosts
from laggard.pipeline.manifest import read_settings
from laggard.pipeline.settings import Settings, parse_assignment
from laggard.pipeline.web.listen import worker_listen
from tests.brokers.ports import free_port

PROC = {
    "self/schedstat": "12 34 5\n",
    "self/mounts": "proc /proc proc rw,nosuid,hidepid=0 0 0\n/dev/sda / ext4 rw 0 0\n",
    "pressure/cpu": "some avg10=0.00",
    "pressure/io": "some avg10=0.00",
    "pressure/memory": "some avg10=0.00",
    "sys/kernel/task_delayacct": "1\n",
    "1/io": "rchar: 1\n",
    "22/io": "rchar: 1\n",
    "uptime": "1 1",
}


def procfs(tmp_path: Path, **changed: str | None) -> Path:
    for name, text in (PROC | {name.replace("__", "/"): text for name, text in changed.items()}).items():
        if text is not None:
            path = tmp_path / "proc" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return tmp_path / "proc"


def by_check(findings: list[Finding]) -> dict[str, Finding]:
    assert all(finding.advice for finding in findings if finding.level != "ok")
    return {finding.check: finding for finding in findings}


@pytest.fixture(params=[0, 1000], ids=["root", "user"])
def user(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(os, "geteuid", lambda: request.param)
    return int(request.param)


def test_a_machine_with_everything(tmp_path: Path, user: int) -> None:
    found = by_check(list(machine.examine_machine(procfs(tmp_path))))
    assert list(found) == [
        *("permissions", "processes", "run-queue wait", "pressure", "block-I/O delay", "open files", "clock")
    ]
    assert all(finding.level == "ok" for check, finding in found.items() if check not in {"clock", "open files"})
    assert found["permissions"].found.startswith("all counters of all 2 processes, as user ")
    assert found["processes"].found == "2 are seen"


@pytest.mark.parametrize(
    ("changed", "check", "found", "advice"),
    [
        ({"self__schedstat": None}, "run-queue wait", "does not count", "CONFIG_SCHED_INFO"),
        ({"self__schedstat": "0 0 0\n"}, "run-queue wait", "does not count", "CONFIG_SCHED_INFO"),
        ({"pressure__cpu": None, "pressure__io": ""}, "pressure", "information of cpu, io", "psi=1"),
        ({"sys__kernel__task_delayacct": "0\n"}, "block-I/O delay", "does not count", "sysctl kernel.task_delayacct=1"),
        ({"sys__kernel__task_delayacct": None}, "block-I/O delay", "", ""),  # an old kernel counts without the switch
    ],
)
def test_what_the_kernel_may_lack(
    tmp_path: Path, changed: dict[str, str | None], check: str, found: str, advice: str
) -> None:
    finding = by_check(list(machine.examine_machine(procfs(tmp_path, **changed))))[check]
    assert finding.level == ("warning" if advice else "ok")
    assert found in finding.found
    assert advice in finding.advice


@pytest.mark.parametrize(
    ("options", "hides"), [("hidepid=2", True), ("hidepid=invisible", True), ("hidepid=off", False)]
)
def test_hidden_processes(tmp_path: Path, options: str, hides: bool, user: int) -> None:
    proc = procfs(tmp_path, self__mounts=f"proc /proc proc rw,{options} 0 0\n")
    assert machine.visibility(proc, 5).level == ("warning" if hides and user else "ok")


def test_counters_that_may_not_be_read(tmp_path: Path, user: int, monkeypatch: pytest.MonkeyPatch) -> None:
    proc = procfs(tmp_path)
    read = Path.read_bytes

    def refuse(path: Path) -> bytes:
        if path.parent.name == "22":
            raise PermissionError(13, "Permission denied", str(path))
        if path.parent.name == "1":
            raise ProcessLookupError
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", refuse)  # the tests may run as root, who may read anything
    finding = machine.permissions([proc / "1", proc / "22"])
    assert finding.level == "warning"
    assert finding.found.startswith("cannot read I/O and descriptors of PID 22: permission denied")
    assert ("run it as root" in finding.advice) == bool(user)


def test_limits_of_open_files() -> None:
    assert machine.descriptors(300, 1024, 1 << 20).level == "ok"
    assert machine.descriptors(300, 1024, resource.RLIM_INFINITY).level == "ok"
    assert machine.descriptors(300, 1024, 1024).found == "the limit is 1024 (soft 1024), the agent wants 1756"


@pytest.mark.parametrize(("state", "level"), [(None, "ok"), (0, "ok"), (5, "warning")])
def test_the_clock(state: int | None, level: str) -> None:
    assert machine.synchronisation(state).level == level


def test_this_machine_can_be_examined() -> None:
    began = time.monotonic()
    findings = list(machine.examine_machine())
    assert len(findings) == 7
    assert time.monotonic() - began < 30


@pytest.mark.parametrize(
    ("method", "refused", "level", "found"),
    [
        ("auto", (), "ok", "running threads are sampled by perf, py-spy, eu-stack"),
        ("auto", ("eu-stack",), "ok", "... by perf, py-spy (no eu-stack)"),
        ("auto", ("perf",), "warning", "... by py-spy and eu-stack alone"),
        ("auto", ("perf", "py-spy", "eu-stack"), "warning", "nothing can sample running threads"),
        ("py-spy", ("perf",), "ok", "... by py-spy alone (diagnosis.method)"),
        ("perf", ("perf",), "warning", "diagnosis.method is perf, which is unavailable"),
        ("jcmd", (), "ok", "... by jcmd alone (diagnosis.method)"),
    ],
)
def test_the_finding_names_usable_profilers(method: str, refused: tuple[str, ...], level: str, found: str) -> None:
    names = ("perf", "py-spy", "eu-stack")
    finding = profilers.finding_of(method, {name: f"no {name}" if name in refused else "" for name in names})
    assert (finding.level, bool(finding.advice)) == (level, level != "ok")
    assert finding.found == found.replace("...", "running threads are sampled")


@pytest.mark.parametrize(
    ("assignment", "found"),
    [
        ("diagnosis.enabled=false", "the agent diagnoses no processes (diagnosis.enabled)"),
        ("diagnosis.method=proc", "the agent records only what threads wait in (diagnosis.method)"),
    ],
)
def test_processes_need_not_be_profiled(tmp_path: Path, assignment: str, found: str) -> None:
    finding = profilers.examine_profilers(settings(tmp_path, assignment))
    assert (finding.level, finding.found) == ("ok", found)


@pytest.mark.parametrize(
    ("wanted", "refusal", "missing", "notes", "level", "found"),
    [
        (False, "", "", (), "ok", "no requests are traced (trace.php, trace.marker, ...); they could be traced"),
        (
            False,
            "no",
            "",
            (),
            "ok",
            "no requests are traced (trace.php, trace.marker, ...); they could not be traced either: no",
        ),
        (True, "", "", (), "ok", "requests can be traced, with the names of files and sockets"),
        (True, "only root may trace", "", (), "warning", "requests cannot be traced: only root may trace"),
        (True, "", "no PHP", (), "warning", "the begin and end of requests are unknown: no PHP"),
        (True, "", "", ("no names", "no more"), "warning", "requests can be traced, but no names; no more"),
        (True, "only root may trace", "no PHP", (), "warning", "requests cannot be traced: only root may trace"),
    ],
)
def test_whether_requests_can_be_traced(  # noqa: PLR0917 - a case each
    wanted: bool, refusal: str, missing: str, notes: tuple[str, ...], level: str, found: str
) -> None:
    finding = tracing.finding_of(wanted=wanted, refusal=refusal, missing=missing, notes=notes)
    assert (finding.level, finding.found, bool(finding.advice)) == (level, found, level != "ok")


def test_a_boundary_that_is_not_there(tmp_path: Path) -> None:
    finding = tracing.examine_tracing(settings(tmp_path, "trace.functions=shop=/nowhere/shopd:handle"))
    assert finding.level == "warning"
    # Without root, what the kernel refuses is said first.
    assert "/nowhere/shopd: cannot be read" in finding.found or "cannot be traced" in finding.found


def settings(tmp_path: Path, *assignments: str) -> Settings:
    given = ["host=web-1", "web.listen=127.0.0.1:0", "serve.listen=127.0.0.1:0", *assignments]
    return read_settings(
        environ={"HOME": str(tmp_path), "LAGGARD_STATE": str(tmp_path / "state")},
        flags=[parse_assignment(assignment) for assignment in given],
    )


LOG = '{"kind": "log", "application": "shop", "paths": ["/var/log/access.log"], "format": "nginx"}'
POOL = '{"kind": "lines", "pool": "jobs", "path": "/run/jobs"}'
METRICS = (
    '{"kind": "prometheus", "application": "shop", "targets": ["http://p/metrics"], "performance": false, '
    '"metrics": "{job=\\"node\\"}"}'
)


@pytest.mark.parametrize(
    ("sources", "assignments", "alone", "warned"),
    [
        (LOG, (), True, True),
        (LOG, (), False, True),
        (LOG, ("applications.hosts=shop=web-*",), True, False),
        (LOG, ("applications.hosts=shop=web-2",), True, True),  # not this machine, and there is no other
        (LOG, ("applications.hosts=shop=web-2",), False, False),
        (LOG, ("applications.hosts=blog=web-1",), False, True),
        (LOG, ("applications.pattern=(?P<application>shop)-.*",), True, True),
        (LOG, ("applications.pattern=(?P<application>shop)-.*",), False, False),
        (f"{LOG}, {METRICS}", (), True, False),
        (POOL, (), True, False),
        (f"{POOL}, {LOG}", (), True, True),
    ],
)
def test_an_application_that_no_host_serves_is_told(
    tmp_path: Path, sources: str, assignments: tuple[str, ...], *, alone: bool, warned: bool
) -> None:
    read = settings(tmp_path, f"sources=[{sources}]", *assignments)
    found = list(examine_hosts(read, alone=alone))
    assert [(each.level, "shop" in each.found) for each in found] == [("warning", True)] * warned
    assert all('applications.hosts = {"shop" = "web-1"}' in each.advice for each in found)


def examined(tmp_path: Path, *assignments: str) -> dict[str, Finding]:
    return by_check(list(installation.examine_installation(settings(tmp_path, *assignments))))


def lags(tmp_path: Path) -> dict[str, Finding]:
    """What is found of those who read, by their names."""
    found = installation.examine_installation(settings(tmp_path))
    return {each.found.split()[0]: each for each in found if each.check == "lag"}


def record(tmp_path: Path, host: str, age_s: float, count: int = 1) -> None:
    layout = make_layout(("a[1@1]",), ("a",), ("threads",))
    topic = Topics().name(COUNTERS)
    with EmbeddedBus(tmp_path / "state/laggard.db") as bus:
        bus.create(Topics().specs())
        for number in range(count):
            ts = time.time() - age_s - count + 1 + number
            frame = Frame("host", host, "process", ts, number, layout, np.ones((1, 1)))
            bus.append([Outgoing(topic, host, encode(frame), ts)])


def test_before_the_first_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = examined(tmp_path)
    assert list(found) == [
        "configuration",
        "diagnosis",
        "tracing",
        "pools",
        "file system",
        "disk",
        "bus",
        "agent",
        "worker",
        "port",
        "serve",
        "page",
    ]
    assert found["bus"].found == "there are no records yet"
    assert found["agent"].level == found["worker"].level == "warning"
    assert found["serve"].level == "ok"
    assert not (tmp_path / "state").exists(), "looking changes nothing"


def test_a_history(tmp_path: Path) -> None:
    began = time.time()
    record(tmp_path, "web-1", 3.0, count=4)
    record(tmp_path, "web-2", 0.0)
    found = examined(tmp_path)["bus"]
    assert found.level == "ok"
    said = re.fullmatch(r"5 records over 0\.0 h, the last of web-1 (\d+) s ago", found.found)
    assert said, found.found
    assert 3 <= int(said[1]) <= round(time.time() - began) + 4
    assert examined(tmp_path, "host=web-3")["bus"].found == "there are no records of web-3, only of web-1, web-2"


def test_an_agent_that_runs_but_is_not_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(tmp_path, "web-1", 100.0)
    bus = str(tmp_path / "state/laggard.db")
    with Claim(bus, tmp_path, "agent"):
        assert examined(tmp_path)["bus"].level == "ok", "it has only just begun"
        monkeypatch.setattr(installation, "holder_of", lambda *_: Holder(os.getpid(), time.time() - 90))
        assert examined(tmp_path)["bus"].level == "problem"
        assert examined(tmp_path, "agent.interval=1m")["bus"].level == "ok"


def test_a_worker_that_does_not_keep_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(tmp_path, "web-1", 100.0, count=3)
    assert "lag" not in examined(tmp_path), "no worker runs"
    holders = {"work": Holder(os.getpid(), time.time() - 10)}
    monkeypatch.setattr(installation, "holder_of", lambda _, __, part: holders.get(part))
    assert lags(tmp_path)["hosts"] == Finding("lag", "ok", "hosts keeps up"), "it has only just begun"
    holders["work"] = Holder(os.getpid(), time.time() - 90)
    found = lags(tmp_path)["hosts"]
    assert found.level == "warning"
    assert lags(tmp_path)["incidents"] == Finding("lag", "ok", "incidents keeps up")
    assert re.fullmatch(r"hosts has 3 records to go, the oldest has waited for (9|1\d)\d s", found.found), found.found
    with EmbeddedBus(tmp_path / "state/laggard.db") as bus:
        (partition,) = bus.partitions("laggard.counters")
        subscription = bus.subscribe("laggard.hosts", ["laggard.counters"])
        assert subscription.poll(1.0).assigned == {partition}
        subscription.commit(Commit({partition: 3}))
        joined = bus.partition_of("laggard.anomalies", "web-1")
        bus.append([Outgoing("laggard.anomalies", "web-1", b"{}", time.time() - 90.0)])
    assert lags(tmp_path)["hosts"].level == "ok"
    assert lags(tmp_path)["incidents"].level == "warning"
    with EmbeddedBus(tmp_path / "state/laggard.db") as bus:
        subscription = bus.subscribe("laggard.incidents", ["laggard.anomalies"])
        assert subscription.poll(1.0).assigned == {joined}
        subscription.commit(Commit({joined: 1}))
    assert lags(tmp_path)["incidents"].level == "ok"


def test_a_clock_that_was_set_back(tmp_path: Path) -> None:
    record(tmp_path, "web-1", -3600.0)
    found = examined(tmp_path)["clock steps"]
    assert found.level == "warning"
    assert found.found.endswith(" s ahead: the clock was set back")


@pytest.mark.parametrize(
    ("mounted", "level"),
    [
        ("/dev/sda / ext4 rw", "ok"),
        ("tmpfs /var tmpfs rw\n/dev/sda / ext4 rw", "warning"),
        ("/dev/sda / ext4 rw\nserver:/x /var/lib nfs4 rw", "problem"),
        ("/dev/sda / ext4 rw\nserver:/x /var/li nfs4 rw", "ok"),
        ("", "ok"),
    ],
)
def test_filesystems(mounted: str, level: str) -> None:
    fields = [line.split(" ") for line in mounted.splitlines()]
    assert installation.file_system(Path("/var/lib/laggard/laggard.db"), fields).level == level


def test_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bus = tmp_path / "a/b/laggard.db"
    assert installation.room(bus, 1 << 20).level == "ok"
    free = 100 << 20
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    assert installation.room(bus, 1 << 20).level == "ok"
    warning = installation.room(bus, 1 << 30)
    assert (warning.level, warning.found) == ("warning", "0 B of at most 1 GiB taken, 100 MiB free on the disk")
    free = 10 << 20
    assert installation.room(bus, 1 << 20).level == "problem"
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, rights: rights == os.F_OK and access(path, rights))
    finding = installation.room(bus, 1 << 20)
    assert (finding.level, finding.found) == ("problem", f"{tmp_path} is not writable")


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="takes another user")
def test_somebody_elses_bus_is_told_and_the_rest_too() -> None:
    program = (
        "import contextlib, io, os, sys\n"
        "from laggard.pipeline.cli import run\n"
        # Once as root, on another file: what it imports may lie where only root may read.
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):\n"
        "    run([sys.argv[1], '--bus', sys.argv[2] + '.other'])\n"
        "os.setgid(65534); os.setuid(65534); sys.exit(run([sys.argv[1], '--bus', sys.argv[2]]))"
    )

    with tempfile.TemporaryDirectory() as folder:  # pytest's own are below one for root alone
        path = Path(folder, "laggard.db")
        path.touch()

        def asked(command: str) -> subprocess.CompletedProcess[str]:
            environment = os.environ | {"HOME": "/"}  # whose configuration may be read
            arguments = [sys.executable, "-c", program, command, str(path)]
            return subprocess.run(arguments, cwd="/", env=environment, capture_output=True, text=True, check=False)

        doctor, why = asked("doctor"), asked("why")
    assert doctor.stderr == ""
    assert re.search(rf"^problem +disk +{folder} is not writable$", doctor.stdout, re.MULTILINE)
    assert re.search(rf"^problem +bus +cannot read {folder}/\S+: permission denied$", doctor.stdout, re.MULTILINE)
    assert why.stderr == f"laggard: cannot read {path}: permission denied; run this as the user that laggard runs as\n"
    assert why.returncode == UNAVAILABLE


def test_secrets_that_others_may_read(tmp_path: Path) -> None:
    config = tmp_path / "laggard.toml"
    config.write_text('[web]\ntoken = "0123456789abcdef"\n')
    config.chmod(0o644)
    read = read_settings(config, {})
    finding = installation.configuration(read)
    assert (finding.level, finding.found) == ("warning", "others may read web.token")
    config.chmod(0o600)
    assert installation.configuration(read).level == "ok"
    assert "0123456789abcdef" not in installation.configuration(read).found


@pytest.mark.parametrize(("check", "setting"), [("port", "web.listen"), ("page", "serve.listen")])
def test_the_ports(tmp_path: Path, check: str, setting: str) -> None:
    with socket.create_server(("127.0.0.1", free_port())) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        finding = examined(tmp_path, f"{setting}={address}")[check]
        assert finding.level == "problem"
        assert address in finding.found
        # With Kafka the part may be on another machine.
        elsewhere = examined(tmp_path, f"{setting}={address}", "bus.location=kafka://127.0.0.1:1")[check]
        assert elsewhere == replace(finding, level="warning")
    assert examined(tmp_path, f"{setting}={address}")[check] == Finding(check, "ok", f"{address} is free")
    assert examined(tmp_path, f"{setting}=127.0.0.1:0")[check].found == "any free one on 127.0.0.1"
    open_to_all = examined(tmp_path, f"{setting}=0.0.0.0:0")[check]
    assert open_to_all.level == "problem"
    assert "token" in open_to_all.found + open_to_all.advice


def test_a_port_that_is_silent(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    silent = installation.port("port", lambda: worker_listen(settings(tmp_path)), Holder(17, 0.0, url))
    assert (silent.level, silent.advice) == ("problem", "stop process 17, and start it again")


def test_pools_that_are_here_and_processes_that_are_not(tmp_path: Path) -> None:
    program = (
        "import os, sys, threading, time\n"
        "for _ in range(3): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
        "print(flush=True)\nsys.stdin.readline()\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        name = Path(f"/proc/{process.pid}/comm").read_text().strip()
        said = settings(tmp_path, f"pools.threads={name},nobody-is", "pools.discover=false")
        missing, here = examine_pools(said)
        process.communicate(b"\n")
    assert (missing.level, missing.found) == (
        "warning",
        "pools.threads names 'nobody-is', but no process here has that name",
    )
    assert here.level == "ok"
    assert re.match(r"\d+ pools? here", here.found)
    assert not list(examine_pools(settings(tmp_path, "pools.discover=false")))
