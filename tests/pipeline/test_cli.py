"""The command line as a person meets it: what it prints, where, and which code it ends with."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import click
import pytest

from laggard.pipeline import cli
from laggard.pipeline.cli import COMMANDS, run
from laggard.pipeline.cli.exits import BUSY, FAILED, MEANINGS, NO_DATA, UNAVAILABLE, USAGE
from laggard.pipeline.cli.options import given_settings, same_settings, setting_flag, settings_options, to_type
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.claims import Claim
from laggard.pipeline.core.records import Decoder, Mark
from laggard.pipeline.settings.producing import AgentSettings

if TYPE_CHECKING:
    from pathlib import Path

    from tests.pipeline.conftest import Called


LAGGARD = [sys.executable, "-P", "-m", "laggard.pipeline.cli"]


pytestmark = pytest.mark.usefixtures("nowhere")


def marks(path: Path) -> list[Mark]:
    decoder = Decoder()
    with EmbeddedBus(path) as bus:
        (partition,) = bus.partitions("laggard.counters")
        read = [decoder.decode(record.value, "test") for record in bus.read(partition, 0)]
    assert all(isinstance(mark, Mark) for mark in read)
    return [mark for mark in read if isinstance(mark, Mark)]


def test_help_names_every_command_and_every_exit_code(laggard: Called) -> None:
    code, out, err = laggard("--help")
    assert (code, err) == (0, "")
    assert all(f"  {name} " in out for name in COMMANDS)
    assert all(meaning in out for meaning in MEANINGS.values())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_there_and_has_help_and_so_has_every_option(name: str, laggard: Called) -> None:
    code, out, _ = laggard(name, "-h")
    assert code == 0
    assert out.startswith(f"Usage: laggard {name} ")
    command = cli.laggard.get_command(click.Context(cli.laggard), name)
    assert command is not None
    for option in command.params:
        assert not isinstance(option, click.Option) or option.help or option.hidden, option.name


def test_help_loads_no_command_and_nothing_heavy() -> None:
    code = (
        "import sys; from laggard.pipeline.cli import run; run(['--help']); run(['up', '--help'])\n"
        "assert not {'numpy', 'rich', 'msgpack', 'sqlite3', 'starlette', 'prometheus_client'} & set(sys.modules)\n"
        "assert 'laggard.pipeline.cli.work' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_version() -> None:
    ended = subprocess.run([*LAGGARD, "--version"], check=True, capture_output=True, text=True)
    assert ended.stdout.startswith("laggard 0.")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["marc"], "No such command 'marc'; did you mean 'mark'?"),
        (["frobnicate"], "No such command 'frobnicate'"),
        ([], "Usage: laggard [OPTIONS] COMMAND"),
        (["up", "--duration", "soon"], "'soon'; expected a duration such as 500ms"),
        (["up", "--duration", "0s"], "'0s'; expected more than nothing"),
        (
            ["up", "--interval", "2h"],
            'laggard: --interval: agent.interval is "2h"; expected a duration from 0.5s to 1h',
        ),
        (["mark", "--set", "x"], "laggard: --set x: expected NAME=VALUE"),
        (["mark", "--config", "none.toml"], "laggard: none.toml: the configuration file cannot be read"),
        (["mark", "--at", "soon"], "'soon' is not a time; expected 14:05"),
        (["mark", "--at", "2100-01-01"], "laggard: --at 2100-01-01 is in the future"),
        (
            ["up", "--bus", "kafka://b1"],
            "laggard: up is for one machine and its embedded bus; on kafka://b1 start `lag",
        ),
        (
            ["agent", "--bus", "kafka://b1", "--set", "host=localhost"],
            "laggard: --set: host is 'localhost', a name that other machines also have; expected a name that is unique",
        ),
    ],
)
def test_a_wrong_command_line(arguments: list[str], said: str, laggard: Called) -> None:
    code, out, err = laggard(*arguments)
    assert (code, out) == (USAGE, "")
    assert said in err
    assert "Traceback" not in err


def test_an_unexpected_error_is_one_line_and_its_traceback_with_debug(
    laggard: Called, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise LookupError("first line\nsecond line")

    monkeypatch.setattr(cli.laggard, "main", lambda *_, **__: broken())
    assert laggard("mark") == (FAILED, "", "laggard: LookupError: first line (more with --debug)\n")
    with pytest.raises(LookupError):
        run(["mark", "--debug"])


@pytest.mark.slow
def test_a_reader_that_goes_away() -> None:
    piped = subprocess.run(
        ["/bin/sh", "-c", f"{' '.join(LAGGARD)} doctor --json; echo $? >&2"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert piped.stderr in {"0\n", "1\n"}
    gone = subprocess.run(
        ["/bin/bash", "-c", f"{' '.join(LAGGARD)} doctor | true"], capture_output=True, text=True, check=True
    )
    assert gone.stderr == ""


def test_mark(tmp_path: Path, laggard: Called) -> None:
    said = f"laggard: there are no records at {tmp_path}/state/laggard.db; start `laggard up` first\n"
    assert laggard("mark", "x") == (NO_DATA, "", said)
    assert not (tmp_path / "state").exists()
    path = tmp_path / "laggard.db"
    EmbeddedBus(path).close()
    before = time.time()
    code, out, err = laggard("mark", "checkout hangs", "--bus", str(path))
    assert code == 0
    assert err == "laggard: there are no records of web-1 yet\n"
    first, second = out.splitlines()
    assert first.startswith("Marked 20")
    assert first.endswith(" on web-1: checkout hangs")
    assert second == f"Next: `laggard why --mark last --bus {path}`"
    code, out, err = laggard("mark", "--at", "1700000000", "--host", "web-2", "--bus", str(path))
    assert (code, err) == (0, "laggard: there are no records of web-2 yet; recorded: web-1\n")
    code, out, _ = laggard("mark", "for a program", "--at", "1700000001", "--json", "--bus", str(path))
    told = json.loads(out)
    assert (code, told) == (0, {"id": told["id"], "ts": 1_700_000_001.0, "host": "web-1", "mark": "for a program"})
    code, out, _ = laggard("why", "--marks", "--json", "--bus", str(path))
    assert (code, json.loads(out.splitlines()[1])) == (0, told), "by this id it can be asked about"
    one, two, _ = marks(path)
    assert (one.host, one.note) == ("web-1", "checkout hangs")
    assert before <= one.ts <= time.time()
    assert two == Mark("web-2", 1_700_000_000.0, "")


@pytest.mark.slow
def test_a_bus_that_is_none(tmp_path: Path, laggard: Called) -> None:
    (tmp_path / "text").write_text("this is no database, whatever its name says" * 100)
    code, _, err = laggard("mark", "x", "--bus", "text")
    assert code == FAILED
    assert err.startswith(f"laggard: {tmp_path}/text: ")
    code, _, err = laggard("mark", "x", "--bus", "kafka://broker")
    assert code in {FAILED, UNAVAILABLE}
    assert "kafka://broker" in err


@pytest.mark.parametrize(
    ("part", "started"), [("agent", "agent"), ("work", "work"), ("up", "up"), ("agent", "up"), ("work", "up")]
)
def test_nothing_starts_twice_on_a_bus(tmp_path: Path, part: str, started: str, laggard: Called) -> None:
    with Claim(str(tmp_path / "x.db"), tmp_path, part):  # type: ignore[arg-type]
        code, out, err = laggard(started, "--bus", "x.db")
    assert (code, out) == (BUSY, "")
    assert err.startswith(f"laggard: `laggard {part}` runs already on x.db (process ")


def test_a_place_that_may_not_be_written(tmp_path: Path, laggard: Called) -> None:
    (tmp_path / "file").write_text("")
    code, _, err = laggard("agent", "--bus", "file/x.db")
    assert code == FAILED
    assert "set state or bus.location to a place where you may write" in err


def test_what_is_given_goes_on_to_parts_and_to_what_to_type_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}

    @click.command()
    @settings_options
    @setting_flag("--interval", AgentSettings.interval, "DURATION", "help")
    def probe() -> None:
        settings = given_settings()
        seen["interval"] = settings[AgentSettings].interval
        seen["part"] = same_settings()
        seen["typed"] = to_type(settings, "mark", "it hangs")

    (tmp_path / "c.toml").write_text('[agent]\ninterval = "9s"')
    probe.main([], standalone_mode=False)
    assert seen == {"interval": 5.0, "part": [], "typed": "laggard mark 'it hangs'"}
    probe.main(["--config", "c.toml", "--set", "host=h", "--debug"], standalone_mode=False)
    assert seen["interval"] == 9.0
    assert seen["part"] == ["--debug", "--config", "c.toml", "--set", "host=h"]
    assert seen["typed"] == "laggard mark 'it hangs' --config c.toml"
    probe.main(["--interval", "2s", "--set", "agent.interval=3s", "--bus", "a b.db"], standalone_mode=False)
    assert seen["interval"] == 2.0
    monkeypatch.setenv("_LAGGARD_PROGRAM", "deploy/laggard")
    probe.main(["--bus", "a b.db", "--set", "state=s"], standalone_mode=False)
    assert seen["typed"] == "deploy/laggard mark 'it hangs' --set state=s --bus 'a b.db'"
    given = ["--bus", "kafka://b1:9093", "--set", "kafka.security=plaintext", "--set", "topics.prefix=ours."]
    probe.main([*given, "--set", "host=h", "--set", "kafka.security=tls"], standalone_mode=False)
    assert seen["typed"] == (
        "deploy/laggard mark 'it hangs' --set kafka.security=tls --set topics.prefix=ours. --bus kafka://b1:9093"
    )


def test_options_may_stand_before_the_command(tmp_path: Path, laggard: Called) -> None:
    config, path = tmp_path / "own.toml", tmp_path / "laggard.db"
    config.write_text("[agent]\ninterval = 7")
    EmbeddedBus(path).close()
    before = ["--config", str(config), "--bus", str(path), "--set", "topics.prefix=a."]
    code, out, _ = laggard(*before, "mark", "x", "--set", "topics.prefix=b.")
    assert code == 0
    assert f"`laggard why --mark last --config {config} --set topics.prefix=" in out, "to be typed next"
    assert "--set topics.prefix=b. --bus" in out, "what stands behind the command holds"
    code, _, err = laggard("--bus", str(path), "--bus", "none.db", "grafana", "check", "--set", "x")
    assert (code, err) == (USAGE, "laggard: --set x: expected NAME=VALUE such as gaussian.context=4h\n")
    code, _, err = laggard("--set", "host=a", "confirm", "7")
    assert code == USAGE
    assert "'confirm' takes no settings; expected nothing before it" in err


def test_a_long_finding_is_broken_in_a_terminal_and_whole_in_a_pipe() -> None:
    code = (
        "from laggard.pipeline.cli.doctor import show, Finding\n"
        f"show(Finding('diagnosis', 'warning', {'nothing can tell it ' * 9!r}, {'/a/path/that/is/long ' * 6!r}))"
    )
    piped = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert len(piped.stdout.splitlines()) == 2
    ours, terminal = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", code], stdout=terminal, env=os.environ | {"COLUMNS": "80"}) as ended:
        os.close(terminal)
        shown = b""
        with contextlib.suppress(OSError):  # how a terminal says that its other side has gone
            while read := os.read(ours, 4096):
                shown += read
    os.close(ours)
    assert ended.returncode == 0
    lines = click.unstyle(shown.decode()).splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert all(line.startswith(" " * 26) and line[26] != " " for line in lines[1:])
    assert " ".join(click.unstyle(piped.stdout).split()) == " ".join(" ".join(lines).split())


def test_doctor_says_what_a_wrong_setting_is(laggard: Called) -> None:
    code, out, _ = laggard("doctor", "--json", "--set", "agent.intervall=3s")
    assert code == FAILED
    said = json.loads(out)
    assert said["problems"] == 1
    (problem,) = [finding for finding in said["findings"] if finding["level"] == "problem"]
    assert problem == {
        "check": "configuration",
        "level": "problem",
        "found": "--set: there is no setting 'agent.intervall'",
        "advice": "did you mean 'agent.interval'?",
    }


def test_doctor_prints_each_finding(tmp_path: Path, laggard: Called) -> None:
    asked = ["doctor", "--bus", "text", "--set", "web.listen=127.0.0.1:0", "--set", "serve.listen=127.0.0.1:0"]
    code, out, err = laggard(*asked)
    assert (code, err) == (0, "")
    assert "ok       bus              there are no records yet" in out
    assert "warning  agent            does not run on this bus" in out
    assert "start `laggard up`, or `laggard agent`" in out
    (tmp_path / "text").write_text("this is no database, whatever its name says" * 100)
    code, out, _ = laggard(*asked)
    assert code == FAILED
    assert f"problem  bus              {tmp_path}/text: " in out
