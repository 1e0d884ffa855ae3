"""How a class of Kafka is run."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from tests.brokers.jars import PACKAGES, NoKafkaError, jars

if TYPE_CHECKING:
    from collections.abc import Sequence

LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")

# Small and quick to start: these live for seconds.
FLAGS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Djava.net.preferIPv4Stack=true")


def java(main: str, *arguments: str, heap_mb: int, flags: Sequence[str] = ()) -> list[str]:
    """The command that runs a class of Kafka."""
    if shutil.which("java") is None:
        raise NoKafkaError(f"java is not there, which runs Kafka for the tests; {PACKAGES}")
    memory = (f"-Xms{min(heap_mb, 64)}m", f"-Xmx{heap_mb}m", "-XX:+ExitOnOutOfMemoryError")
    log = f"-Dlog4j2.configurationFile={LOG_SETTINGS}"
    return ["java", *memory, *FLAGS, log, *flags, "-cp", f"{jars()}/*", main, *arguments]
