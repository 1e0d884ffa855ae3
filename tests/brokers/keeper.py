"""One broker for all processes of a test run: who needs it first starts it, in a process that ends with the run."""

from __future__ import annotations

import os
import pickle
import select
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.brokers.cluster import Cluster
from tests.brokers.java import loaded_classes
from tests.brokers.node import BrokerError
from tests.brokers.ports import WORKERS

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT: Final = Path(__file__).parents[2]
STARTS_S: Final = 300.0

_CLUSTER: Final = "cluster.pickle"


def keep(folder: Path, run: int) -> None:
    """Start a broker that ends with the process `run`, however that ends.

    Raises `BrokerError`, or `MissingPartError` where this machine has not what runs one.
    """
    loaded_classes()  # else it is the other process that misses them
    command = ["setsid", "--fork", sys.executable, "-m", "tests.brokers.keeper", str(folder), str(run)]
    # The keeper gets ports that none of pytest's workers gives to others.
    environment = {**os.environ, "PYTEST_XDIST_WORKER": f"gw{WORKERS}"}
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=STARTS_S,
    )
    if not (folder / _CLUSTER).exists():
        raise BrokerError(f"the shared broker did not start:\n{done.stdout[-4000:]}")


def kept(folder: Path) -> Cluster:
    """The broker that was started in this folder."""
    cluster: Cluster = pickle.loads((folder / _CLUSTER).read_bytes())
    return cluster


def main(arguments: Sequence[str]) -> None:
    """Start the broker, close the output to say so, and wait for the end of the run."""
    folder, run = Path(arguments[0]), os.pidfd_open(int(arguments[1]))
    # It is never restarted. On a busy machine its own heartbeat may be late, and it is not to give itself up for that.
    with Cluster(folder / "cluster", properties={"broker.session.timeout.ms": "60000"}) as cluster:
        partial = folder / f"{_CLUSTER}.partial"
        partial.write_bytes(pickle.dumps(cluster))
        partial.rename(folder / _CLUSTER)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for output in (1, 2):
            os.dup2(nowhere, output)
        select.select([run], [], [])


if __name__ == "__main__":
    main(sys.argv[1:])
