"""`laggard why`, `watch` and `mark` on a real broker, as a person meets them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from laggard.pipeline.cli import run
from laggard.pipeline.cli.exits import NO_DATA
from laggard.pipeline.core.bus import Outgoing, TopicSpec
from laggard.pipeline.core.bus.kafka.bus import KafkaBus
from laggard.pipeline.core.bus.kafka.options import KafkaOptions, servers_of
from laggard.pipeline.core.engine.runner import Runner
from laggard.pipeline.core.records import Frame, encode
from laggard.pipeline.core.topics import COUNTERS, Topics
from laggard.pipeline.manifest import read_settings
from laggard.pipeline.settings import Given
from laggard.pipeline.wiring import wire
from tests.pipeline.history.conftest import HOG, at, frames
from tests.programs import started

if TYPE_CHECKING:
    from pathlib import Path

    from tests.brokers import Cluster

pytestmark = pytest.mark.slow

WIRED = wire(read_settings(environ={}, flags=[Given("gaussian.context", "40m", "test")]))
LAGGARD = [sys.executable, "-P", "-m", "laggard.pipeline.cli"]


def test_commands(
    broker: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    topics = Topics(f"t{uuid.uuid4().hex[:8]}.")
    for name, value in {
        "HOME": str(tmp_path),
        "LAGGARD_STATE": str(tmp_path),
        "LAGGARD_HOST": "db-9",
        "LAGGARD_BUS_LOCATION": broker.location,
        "LAGGARD_TOPICS_PREFIX": topics.prefix,
        "LAGGARD_GAUSSIAN_CONTEXT": "40m",
    }.items():
        monkeypatch.setenv(name, value)

    def called(*arguments: str) -> tuple[int, str, str]:
        code = run(arguments)
        return code, *capsys.readouterr()

    shift = time.time() - at(170)
    hosts = ("web-1", "web-2", "web-3")
    records = sorted(
        (
            replace(each, ts=each.ts + shift)
            for number, host in enumerate(hosts)
            for each in frames(host, range(160), seed=number)
            if isinstance(each, Frame)
        ),
        key=lambda each: each.ts,
    )
    with KafkaBus(
        KafkaOptions(bootstrap=servers_of(broker.location), prefix=topics.prefix, request_timeout_s=60.0)
    ) as bus:
        code, _, err = called("why")
        assert (code, "`laggard topics create` creates" in err) == (1, True), err
        snapshots = [topics.name(topics.snapshots(each.snapshots)) for each in WIRED]
        bus.create([*topics.specs(partitions=2), *(TopicSpec(name, 2, compacted=True) for name in snapshots)])
        assert called("why")[0] == NO_DATA
        topic = topics.name(COUNTERS)
        bus.append([Outgoing(topic, each.key, encode(each), each.ts) for each in records])
        runner, stop = Runner(bus, WIRED, topics, snapshot_records=100), threading.Event()
        working = threading.Thread(target=runner.run, args=(stop,))
        working.start()
        until = time.monotonic() + 60
        group = topics.group(WIRED[0].name)
        while time.monotonic() < until and any(
            bus.committed(group, each) < bus.bounds(each)[1] for each in bus.partitions(topic)
        ):
            time.sleep(0.2)
        stop.set()
        working.join(30)

        code, out, err = called("why")
        assert (code, out) == (NO_DATA, "")
        assert err == (
            "laggard: there are no records of host db-9; recorded: web-1, web-2, web-3; name one with --host\n"
        )
        code, out, _ = called("why", "--host", "web-1")
        assert code == 0
        assert "`hog` (pid 4711, `python3 hog.py`) is behaving unusually" in out
        assert "Start it there: `laggard agent`" in out
        # Of the past the newest state is of no use: it is learned from the input.
        code, out, _ = called("why", "--host", "web-1", "--at", f"{at(155) + shift!r}", "--json")
        assert (code, json.loads(out)["rows"][0]["row"]) == (0, HOG)
        code, out, _ = called("why", "--host", "web-1", "--at", f"{at(130) + shift!r}", "--json")
        assert code == 0
        assert json.loads(out)["score"] < 1.0, "and nothing that came later is in it"

        code, out, err = called("mark", "slow", "--host", "web-2", "--at", f"{at(157) + shift!r}", "--json")
        assert (code, err) == (0, "")
        mark = json.loads(out)
        code, out, err = called("mark", "slow", "--host", "nobody")
        assert err == "laggard: there are no records of nobody yet; recorded: web-1, web-2, web-3\n"
        code, out, _ = called("why", "--marks", "--json", "--host", "web-2")
        assert (code, json.loads(out)) == (0, mark)
        code, out, _ = called("why", "--mark", mark["id"], "--json")
        assert (code, json.loads(out)["rows"][0]["row"]) == (0, HOG)

        command = [*LAGGARD, "watch", "--host", "web-3", "--json"]
        with started(command, stdout=subprocess.PIPE, text=True, env=os.environ) as watching:
            assert watching.stdout is not None
            first = json.loads(watching.stdout.readline())
            newer = [each for each in frames("web-3", range(160, 162), seed=2) if isinstance(each, Frame)]
            newer = [replace(each, ts=each.ts + shift) for each in newer]
            bus.append([Outgoing(topic, "web-3", encode(each), each.ts) for each in newer])
            second = json.loads(watching.stdout.readline())
            watching.send_signal(signal.SIGINT)
            assert watching.wait(60) == 0
        assert [first["host"], second["host"]] == ["web-3"] * 2
        assert first["ts"] < second["ts"]
