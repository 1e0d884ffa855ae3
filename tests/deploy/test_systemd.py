"""The units: systemd takes them, and finds little to say about their exposure."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from laggard.pipeline.cli import COMMANDS
from laggard.pipeline.cli.up import MEMORY
from laggard.pipeline.manifest import read_settings
from laggard.pipeline.settings.kinds import size
from tests.brokers.ports import free_port
from tests.brokers.processes import start
from tests.deploy.files import DEPLOY, check_settings
from tests.programs import path_of

UNITS = DEPLOY / "systemd"
RUNTIME = Path("/run/systemd")
PROGRAM = "/opt/laggard/bin/laggard"
AGENT, MEASURE, WORKER = "laggard-agent.service", "laggard-measure.service", "laggard-worker@.service"
TRACE, SERVE, UP = "laggard-trace.service", "laggard-serve.service", "laggard.service"

EXPOSURE = {AGENT: 2.2, MEASURE: 1.3, SERVE: 1.1, TRACE: 4.8, UP: 5.4, WORKER: 1.1}
"""The exposure of each unit, of 10, as `systemd-analyze security` counts. The agent has it for its view of all
processes, and measure for the group that may read logs. The tracer has it for root's rights over tracing, in the host's
own filesystem. The unit of all parts has them all."""


@pytest.fixture(params=EXPOSURE)
def unit(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of a unit with its drop-in, whose program is there."""
    template: str = request.param
    name = template.replace("@", "@9464")
    copy = tmp_path / name
    text = (UNITS / template).read_text()
    assert PROGRAM in text
    copy.write_text(text.replace(PROGRAM, "/bin/true"))
    (tmp_path / f"{name}.d").mkdir()
    (tmp_path / f"{name}.d/credentials.conf").write_text((UNITS / "credentials.conf").read_text())
    return copy


def analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    if os.geteuid() and not RUNTIME.is_dir():
        pytest.skip(f"systemd-analyze needs {RUNTIME}: it is there where systemd runs, and elsewhere root makes it")
    command = [path_of("systemd-analyze"), "--no-pager", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_systemd_takes_it(unit: Path) -> None:
    done = analyze("verify", "--man=no", unit)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_systemd_finds_what_is_wrong(unit: Path) -> None:
    unit.write_text(unit.read_text().replace("LockPersonality=yes", "LockPersonality=perhaps"))
    assert "Failed to parse boolean value" in analyze("verify", "--man=no", unit).stderr


def test_its_exposure_is_small(unit: Path) -> None:
    done = analyze("security", "--offline=true", unit)
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert found, done.stderr
    assert float(found[1]) <= EXPOSURE[unit.name.replace("9464", "")]


@pytest.mark.parametrize("name", EXPOSURE)
def test_it_says_what_laggard_understands(name: str) -> None:
    text = (UNITS / name).read_text() + (UNITS / "credentials.conf").read_text()
    check_settings(dict(re.findall(r"^Environment=(\w+)=(.*)$", text, re.MULTILINE)))
    (command,) = re.findall(rf"^ExecStart={PROGRAM} (\w+)(?: run)?$", text, re.MULTILINE)
    assert command in COMMANDS
    (most,) = re.findall(r"^MemoryMax=(\w+)$", text, re.MULTILINE)
    limits = {part: read_settings(environ={}).value(setting) for part, setting in MEMORY.items()}
    if command == "up":
        assert sum(limits.values()) < size(f"{most}iB")
    else:
        assert size(f"{most}iB") == limits[command], "as `laggard up` limits it"
    (directory,) = re.findall(r"^StateDirectory=(.*)$", text, re.MULTILINE)
    assert f"Environment=LAGGARD_STATE=%S/{directory}\n" in text
    # What pipeline/core/notify.py speaks.
    assert "Type=notify\n" in text
    assert re.search(r"^WatchdogSec=\d+s$", text, re.MULTILINE)


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="it takes root's capabilities")
def test_all_parts_run_with_the_capabilities_of_their_unit(tmp_path: Path) -> None:
    bound = " ".join(re.findall(r"^CapabilityBoundingSet=(.*)$", (UNITS / UP).read_text(), re.MULTILINE)).split()
    names = [each.removeprefix("CAP_").lower() for each in bound]
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(str(tmp_path / "notify"))
    manager.settimeout(120.0)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("LAGGARD_")} | {
        "NOTIFY_SOCKET": str(tmp_path / "notify"),
        "LAGGARD_STATE": str(tmp_path / "state"),
        "LAGGARD_SERVE_LISTEN": f"127.0.0.1:{free_port()}",
        "LAGGARD_WEB_LISTEN": f"127.0.0.1:{free_port()}",
    }
    limited = ["setpriv", "--bounding-set", ",".join(["-all", *(f"+{name}" for name in names)]), "--no-new-privs"]
    with manager, (tmp_path / "log").open("wb") as log:
        up = start([*limited, sys.executable, "-m", "laggard.pipeline.cli", "up"], log, environ)
        assert manager.recv(4096) == b"READY=1", (tmp_path / "log").read_text()
        up.send_signal(signal.SIGTERM)
        assert up.wait(90) == 0, (tmp_path / "log").read_text()


@pytest.mark.parametrize("name", [AGENT, UP])
def test_an_agent_writes_to_no_process(name: str) -> None:
    """CAP_SYS_PTRACE would let it, and @system-service allows the call."""
    filters = [line for line in (UNITS / name).read_text().splitlines() if "SystemCallFilter" in line]
    assert "SystemCallFilter=~process_vm_writev" in filters[-2:]
    assert not [line for line in filters if "ptrace" in line or "@debug" in line]
