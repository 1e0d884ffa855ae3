"""`laggard up` for real: three processes, a bus and a port, watched over by a fourth."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from laggard.pipeline.cli.exits import BUSY, FAILED, USAGE
from laggard.pipeline.cli.up import PARTS, introduction, status
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.claims import holder_of
from laggard.pipeline.core.records import Decoder, Frame, Mark
from laggard.pipeline.manifest import read_settings
from laggard.pipeline.settings import parse_assignment
from laggard.pipeline.wiring import wire
from tests.pipeline.waiting import alive, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from laggard.pipeline.core.claims import Part

LAGGARD = [sys.executable, "-P", "-m", "laggard.pipeline.cli"]


class Up:
    """A running `laggard up` on a bus of its own, at two ticks a second."""

    def __init__(self, folder: Path, *more: str) -> None:
        self.bus = folder / "laggard.db"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LAGGARD_")}
        self.process = subprocess.Popen(
            [
                *(*LAGGARD, "up", "--bus", str(self.bus), "--interval", "500ms"),
                *("--set", "web.listen=127.0.0.1:0", "--set", "serve.listen=127.0.0.1:0", "--set", "host=web-1"),
                *("--set", "serve.require_token=never", *more),  # whoever has an account here
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
            env={**environment, "LAGGARD_STATE": str(folder)},
        )
        self.stdout, self.stderr = self.process.stdout, self.process.stderr

    def introduced(self) -> list[str]:
        """What it prints once both parts run."""
        assert self.stdout is not None
        lines: list[str] = []
        while not lines or not lines[-1].startswith("^C"):
            lines.append(self.stdout.readline())
            assert lines[-1], self.stderr.read() if self.stderr else ""
        return lines

    def holder(self, part: Part) -> tuple[int, str]:
        found = holder_of(str(self.bus), self.bus.parent, part)
        return (found.pid, found.url) if found else (0, "")

    def kill(self, part: Part) -> None:
        """Kill a part and wait until another one runs in its place."""
        pid, _ = self.holder(part)
        os.kill(pid, signal.SIGKILL)
        until(lambda: self.holder(part)[0] not in {0, pid})

    def ended(self, number: signal.Signals | None = None) -> tuple[int, str, str]:
        if number is not None:
            self.process.send_signal(number)
        out, err = self.process.communicate(timeout=120)
        return self.process.returncode, out, err

    def committed(self) -> int:
        """How many records the worker is done with."""
        with EmbeddedBus(self.bus) as bus:
            (partition,) = bus.partitions("laggard.counters")
            return bus.committed("laggard.hosts", partition)

    def frames(self) -> list[Frame | Mark]:
        decoder = Decoder()
        with EmbeddedBus(self.bus) as bus:
            (partition,) = bus.partitions("laggard.counters")
            read = [decoder.decode(record.value, "test") for record in bus.read(partition, 0)]
        return [record for record in read if isinstance(record, Frame | Mark)]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Up]]:
    started: list[Up] = []

    def begin(*more: str) -> Up:
        started.append(Up(tmp_path, *more))
        return started[-1]

    yield begin
    for up in started:
        up.process.kill()
        up.process.communicate()


@pytest.mark.slow
def test_killed_it_takes_its_parts_along_and_starts_again_says_what_to_do_next_and_stops(
    start: Callable[..., Up],
) -> None:
    killed = start()
    killed.introduced()
    worker, *others = (killed.holder(part)[0] for part in ("work", "agent", "serve"))
    os.kill(worker, signal.SIGSTOP)  # it needs a while to end
    killed.process.kill()
    killed.process.wait()
    until(lambda: not any(map(alive, others)))

    up = start()
    assert up.stderr is not None
    assert up.stderr.readline() == (
        f"waiting for `laggard work` (process {worker}) of an earlier `laggard up`, which was killed, to end ...\n"
    )
    os.kill(worker, signal.SIGCONT)
    lines = up.introduced()
    assert not alive(worker)
    assert lines[0] == "laggard watches web-1: every process and the host itself, every 0.5 s.\n"
    assert f"  laggard why --bus {up.bus}  " in "".join(lines)
    parts = [up.holder("agent"), up.holder("work"), up.holder("serve")]
    names = [Path(f"/proc/{pid}/comm").read_text() for pid in (up.process.pid, *(pid for pid, _ in parts))]
    assert names == ["laggard-up\n", "laggard-agent\n", "laggard-worker\n", "laggard-serve\n"]
    assert lines[2:4] == [f"  page     {parts[2][1]}\n", f"  metrics  {parts[1][1]}/metrics\n"]
    until(lambda: len(up.frames()) >= 6 and up.committed() > 0)
    code, out, err = up.ended(signal.SIGTERM)
    assert (code, out, err) == (0, "", "")
    assert not any(alive(pid) for pid, _ in parts)
    scopes = {frame.scope for frame in up.frames() if isinstance(frame, Frame)}
    assert scopes - {"limit"} == {"process", "host", "agent"}, "limits are told where something is near one"
    with EmbeddedBus(up.bus) as bus:
        (partition,) = bus.partitions("laggard.counters")
        for wired in wire(settings()):
            assert bus.snapshots(wired.snapshots, partition), "the worker left its state"


@pytest.mark.slow
def test_it_watches_over_its_parts(start: Callable[..., Up]) -> None:
    up = start()
    up.introduced()

    # A second one is refused, and leaves the first one alone.
    second = start("--duration", "1s")
    code, out, err = second.ended()
    assert (code, out) == (BUSY, "")
    assert re.fullmatch(rf"laggard: `laggard up` runs already on \S+ \(process {up.process.pid}\); .*\n", err)

    # A mark over HTTP and one by the command line.
    url = up.holder("work")[1]
    posted = urllib.request.Request(
        f"{url}/marks", data=b'{"note": "over HTTP"}', headers={"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(posted, timeout=120) as answer:
        assert answer.status == 201
    subprocess.run(
        [*LAGGARD, "mark", "typed", "--bus", str(up.bus), "--host", "web-1"], check=True, capture_output=True
    )

    # Each part is started again when it is killed.
    up.kill("agent")
    up.kill("work")
    until(lambda: bool(up.holder("work")[1]))
    with urllib.request.urlopen(f"{up.holder('work')[1]}/-/healthy", timeout=120) as answer:
        assert answer.status == 200

    doctor = subprocess.run(
        [*LAGGARD, "doctor", "--json", "--bus", str(up.bus), "--set", "host=web-1", "--set", "agent.interval=500ms"],
        check=False,
        capture_output=True,
    )
    levels = {finding["check"]: finding["level"] for finding in json.loads(doctor.stdout)["findings"]}
    assert [levels[check] for check in ("bus", "agent", "worker", "port", "serve", "page")] == ["ok"] * 6

    pids = [up.holder(part)[0] for part in PARTS]
    code, out, err = up.ended(signal.SIGINT)
    assert (code, out) == (0, "")
    assert err.splitlines() == [
        "laggard: agent was killed by SIGKILL; it starts again in 0.5 s",
        "laggard: work was killed by SIGKILL; it starts again in 0.5 s",
    ]
    assert not any(map(alive, pids))
    records = up.frames()
    assert sorted(record.note for record in records if isinstance(record, Mark)) == ["over HTTP", "typed"]
    sequences = [record.sequence for record in records if isinstance(record, Frame)]
    assert sequences == sorted(set(sequences)), "they grow over restarts"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setting", "listen", "said"),
    [
        (
            "web",
            "0.0.0.0:0",
            "can be reached from other machines, so it needs a token; set web.token, or listen on 127.0.0.1",
        ),
        ("web", "192.0.2.7:9464", "cannot listen on 192.0.2.7:9464: no address of this machine; "),
        (
            "serve",
            "0.0.0.0:0",
            "can be reached from other machines, so it needs a token; set serve.token or serve.proxies, or listen on",
        ),
        ("serve", "192.0.2.7:9463", "cannot listen on 192.0.2.7:9463: no address of this machine; set serve.listen "),
    ],
)
def test_an_address_that_cannot_be_listened_on_starts_nothing(
    start: Callable[..., Up], tmp_path: Path, setting: str, listen: str, said: str
) -> None:
    (tmp_path / "laggard.toml").write_text("" if listen.startswith("0") else f'{setting}.token = "{16 * "t"}"')
    up = start("--set", f"{setting}.listen={listen}")
    code, out, err = up.ended()
    assert (code, out) == (BUSY, "")
    assert err.startswith(f"laggard: {setting}.listen: ")
    assert said in err
    assert not up.bus.exists(), "the agent has not written anything"


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["web.listen", "serve.listen"])
def test_a_port_that_is_taken_ends_it_at_once(start: Callable[..., Up], setting: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        up = start("--set", f"{setting}=127.0.0.1:{taken.getsockname()[1]}")
        code, out, err = up.ended()
    assert (code, out) == (BUSY, "")
    assert err.startswith(f"laggard: {setting}: cannot listen on 127.0.0.1:")
    assert len(err.splitlines()) == 1


@pytest.mark.slow
def test_a_generated_token_is_told_once_as_a_link(start: Callable[..., Up]) -> None:
    asks = ("--set", "serve.require_token=always")
    up = start(*asks)
    lines = up.introduced()
    (at,) = (number for number, line in enumerate(lines) if line.startswith("  page "))
    page, told = lines[at].split()[1], lines[at + 1]
    kept = up.bus.parent / "serve.token"
    link = f"{page}/#token={kept.read_text().strip()}"
    why = "It asks for a token, because serve.require_token says so: the one in"
    assert told == f"           {why} {kept}, or once by this link: {link}\n"
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(f"{page}/api/v1/cluster")
    if os.geteuid() == 0:
        json_of = {"Content-Type": "application/json"}
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(urllib.request.Request(f"{up.holder('work')[1]}/marks", b"{}", json_of))
    assert up.ended(signal.SIGINT)[::2] == (0, "")
    lines = start(*asks).introduced()
    assert lines[at + 1] == f"           {why} {kept}.\n"
    assert "#token" not in "".join(lines)


@pytest.mark.slow
def test_the_line_on_a_terminal(tmp_path: Path) -> None:
    """A terminal sees a line that is drawn again and again, and goes away at the end."""
    if not Path("/dev/pts/ptmx").exists():
        pytest.skip("there are no terminals to be had: /dev/pts is not mounted")
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(LAGGARD_STATE=str(tmp_path), COLUMNS="40")
        listen = ["--set", "web.listen=127.0.0.1:0", "--set", "serve.listen=127.0.0.1:0"]
        os.execv(sys.executable, [*LAGGARD, "up", "--interval", "500ms", *listen])
    shown, told = b"", False
    try:
        while read := os.read(terminal, 4096):
            shown += read
            if shown.count(b" ticks ") > 2 and not told:
                told = True
                os.kill(pid, signal.SIGINT)
    except OSError:  # how a terminal says that its other side has gone
        pass
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    os.close(terminal)
    drawn = [line for line in shown.decode().split("\r\x1b[K") if " ticks " in line[:40]]
    assert len(drawn) >= 2
    assert all(len(line) <= 39 for line in drawn if not line.startswith("Stopped"))
    assert re.search(r"\r\x1b\[KStopped after \d+ ticks; the recorded data stays\.\r\n$", shown.decode())


def settings(*given: str) -> Any:
    return read_settings(environ={"HOME": "/h"}, flags=[parse_assignment(one) for one in ("host=web-1", *given)])


def test_the_introduction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    text = introduction(
        settings("state=/s", "bus.retention=90m", "agent.interval=0.5s"), "http://[::1]:1", "http://[::1]:2"
    )
    assert "every 0.5 s.\n" in text
    assert "  data     /s/laggard.db (at most 1 GiB, 1.5 h)\n" in text
    assert "  page     http://[::1]:2\n  metrics  http://[::1]:1/metrics\nIt is learning" in text
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("_LAGGARD_PROGRAM", "deploy/laggard")
    assert "  note     not root, so I/O" in (text := introduction(settings(), "", ""))
    assert "  deploy/laggard why " in text


@pytest.mark.parametrize(
    ("work", "shown"),
    [
        ({"recovering": 7, "score": None, "young": False}, "3 ticks   5 processes   catching up, 7 records left"),
        ({"recovering": 0, "score": None, "young": False}, "3 ticks   5 processes   no score yet"),
        ({"recovering": 0, "score": 0.5, "young": True}, "3 ticks   5 processes   score 0.50, still learning"),
        ({"recovering": 0, "score": 12.345, "young": False}, "3 ticks   5 processes   score 12.35"),
    ],
)
def test_the_status(work: dict[str, object], shown: str) -> None:
    assert status({"agent": {"ticks": 3, "rows": 5}, "work": work}) == shown
    assert status({"agent": {"ticks": 1, "rows": 5}, "work": work}).startswith("1 tick   5 ")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        (("--set", "gaussian.context=short"), USAGE, "gaussian.context"),
        (("--bus", "notes.txt"), FAILED, "notes.txt: cannot open: file is not a database"),
    ],
    ids=["a wrong setting", "a file that is no bus"],
)
def test_what_is_wrong_from_the_beginning_starts_nothing(
    start: Callable[..., Up], tmp_path: Path, given: tuple[str, ...], code: int, said: str
) -> None:
    (tmp_path / "notes.txt").write_text("not a database, and long enough to tell\n" * 10)
    ended, out, err = start(*given).ended()
    assert (ended, out) == (code, "")
    assert said in err
    assert "starting it again" not in err
