"""The services of the Compose file, started as it says, in its order, on a real broker: only without containers."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from tests.brokers.ports import free_port
from tests.brokers.processes import start
from tests.deploy.files import DEPLOY, documents

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.brokers import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

TOKEN = "0123456789abcdef"
(COMPOSED,) = documents((DEPLOY / "compose/compose.yaml").read_text())
HEALTHCHECK = re.search(r"^HEALTHCHECK .* CMD \\\n +(\[.*\])$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)


class Service:
    """A service of the Compose file as a process."""

    def __init__(self, name: str, cluster: Cluster, state: Path, **changed: str) -> None:
        service = COMPOSED["services"][name]
        given = {
            variable: re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value) for variable, value in service["environment"].items()
        }
        environment = {variable: value for variable, value in os.environ.items() if not variable.startswith("LAGGARD_")}
        self.log = state / f"{name}.log"
        told = {
            "LAGGARD_BUS_LOCATION": cluster.location,
            "LAGGARD_TOPICS_PREFIX": "deployed.",
            "LAGGARD_STATE": str(state / name),
        }
        with self.log.open("wb") as log:
            command = [sys.executable, "-m", "laggard.pipeline.cli", *service["command"]]
            self.process = start(command, log, environment | given | told | changed)

    def end(self, number: int = signal.SIGTERM) -> int:
        """Its exit code, within what an orchestrator would wait."""
        self.process.send_signal(number)
        return self.process.wait(30)


def get(url: str, token: str | None = None) -> tuple[int, str]:
    """The worker answers a kubelet: it asks by an address, which is no name of the worker."""
    headers = {"Host": "10.1.2.3:9464"} | ({"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError as error:
        return 0, str(error)


def until(condition: Any, service: Service, within_s: float = 120.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert service.process.poll() is None, service.log.read_text()
        assert time.monotonic() < deadline, service.log.read_text()
        time.sleep(0.2)


@pytest.fixture(scope="module")
def running(broker: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, Service, int]]:
    """Agent, worker and the worker's port, after the job that creates the topics has ended."""
    state = tmp_path_factory.mktemp("deployed")
    port = free_port()
    topics = Service("topics", broker, state)
    assert topics.process.wait(120) == 0, topics.log.read_text()
    worker = Service("worker", broker, state, LAGGARD_WEB_LISTEN=f"0.0.0.0:{port}", LAGGARD_WEB_TOKEN=TOKEN)
    agent = Service("agent", broker, state, LAGGARD_AGENT_INTERVAL="0.5s", LAGGARD_HOST="node-1")
    try:
        yield agent, worker, port
    finally:
        for service in (agent, worker):
            service.process.kill()
            service.process.wait()


def scored(port: int) -> float:
    _, page = get(f"http://127.0.0.1:{port}/metrics", TOKEN)
    return sum(map(float, re.findall(r"^laggard_records_total\{.*\} (.*)$", page, re.MULTILINE)))


def test_the_worker_gets_ready_and_scores_what_the_agent_sends(running: tuple[Service, Service, int]) -> None:
    _, worker, port = running
    until(lambda: get(f"http://127.0.0.1:{port}/-/ready")[0] == 200, worker)
    until(lambda: scored(port) >= 9, worker)
    assert 'host="node-1"' in get(f"http://127.0.0.1:{port}/metrics", TOKEN)[1]


def test_probes_need_no_token_and_metrics_do(running: tuple[Service, Service, int]) -> None:
    _, worker, port = running
    until(lambda: get(f"http://127.0.0.1:{port}/-/healthy")[0] == 200, worker)
    assert get(f"http://127.0.0.1:{port}/metrics")[0] == 401


def test_the_images_check_of_health(running: tuple[Service, Service, int]) -> None:
    _, worker, port = running
    until(lambda: get(f"http://127.0.0.1:{port}/-/healthy")[0] == 200, worker)
    assert HEALTHCHECK
    command = json.loads(HEALTHCHECK[1].replace("9464", str(port)))
    assert subprocess.run([sys.executable, *command[1:]], check=False).returncode == 0
    command = json.loads(HEALTHCHECK[1].replace("9464", str(free_port())))
    assert subprocess.run([sys.executable, *command[1:]], capture_output=True, check=False).returncode


def test_creating_the_topics_again_changes_nothing(
    broker: Cluster, running: tuple[Service, Service, int], tmp_path: Path
) -> None:
    again = Service("topics", broker, tmp_path)
    assert again.process.wait(120) == 0, again.log.read_text()


def test_they_stop_when_they_are_told_to(running: tuple[Service, Service, int]) -> None:
    agent, worker, port = running
    until(lambda: get(f"http://127.0.0.1:{port}/-/ready")[0] == 200, worker)
    assert agent.end() == 0, agent.log.read_text()
    assert worker.end() == 0, worker.log.read_text()
