"""How a class of Kafka is run."""

from __future__ import annotations

import functools
import hashlib
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.brokers.jars import jars
from tests.brokers.ports import free_port
from tests.brokers.processes import start
from tests.programs import kept, path_of

if TYPE_CHECKING:
    from collections.abc import Sequence

LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")

# Small and quick to start: these live for seconds.
FLAGS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Djava.net.preferIPv4Stack=true")

STARTED: Final = "Kafka Server started"
"""What a broker says when it is in the cluster and serves."""

_ARCHIVE: Final = "classes.jsa"
_LOADS_S: Final = 90.0


def java(main: str, *arguments: str, heap_mb: int, flags: Sequence[str] = ()) -> list[str]:
    """The command that runs a class of Kafka."""
    # What is wrong with the archive is no matter: classes are then loaded from the jars.
    archive = (f"-XX:SharedArchiveFile={loaded_classes() / _ARCHIVE}", "-Xlog:disable")
    return _command(main, *arguments, heap_mb=heap_mb, flags=(*archive, *flags))


def _command(main: str, *arguments: str, heap_mb: int, flags: Sequence[str]) -> list[str]:
    memory = (f"-Xms{min(heap_mb, 64)}m", f"-Xmx{heap_mb}m", "-XX:+ExitOnOutOfMemoryError")
    log = f"-Dlog4j2.configurationFile={LOG_SETTINGS}"
    return [path_of("java"), *memory, *FLAGS, log, *flags, "-cp", f"{jars()}/*", main, *arguments]


@functools.cache
def loaded_classes() -> Path:
    """The folder with a broker's classes as Java has them in memory: to load them is half of what a start takes."""
    version = subprocess.run([path_of("java"), "-version"], capture_output=True, check=True).stderr
    made_of = hashlib.sha256(b"\0".join([version, str(jars()).encode(), *map(str.encode, FLAGS)])).hexdigest()
    return kept(f"kafka-classes-{made_of[:12]}", _load, "Kafka's classes: loaded ahead")


def _load(folder: Path) -> Path:
    """Run a broker until it serves, and let Java write down what it has loaded when it ends."""
    made, settings, log = folder / "made", folder / "server.properties", folder / "broker.log"
    made.mkdir()
    port, controller = free_port(), free_port()
    told = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "log.dirs": str(folder / "data"),
    }
    settings.write_text("".join(f"{name}={value}\n" for name, value in told.items()))
    format_it = ("format", "--cluster-id=AAAAAAAAAAAAAAAAAAAAAA", "--config", str(settings))
    tool = _command("kafka.tools.StorageTool", *format_it, heap_mb=128, flags=())
    subprocess.run(tool, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_LOADS_S)
    flags = (f"-XX:ArchiveClassesAtExit={made / _ARCHIVE}", "-Xlog:disable", "-Dlaggard.log=info")
    with log.open("wb") as said:
        broker = start(_command("kafka.Kafka", str(settings), heap_mb=256, flags=flags), said)
    until = time.monotonic() + _LOADS_S
    while STARTED not in log.read_text(errors="replace") and broker.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    broker.terminate()
    try:
        broker.wait(_LOADS_S)
    except subprocess.TimeoutExpired:
        broker.kill()
        broker.wait()
    return made
