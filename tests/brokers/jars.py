"""Kafka's jars, fetched once from Maven Central and kept in the user's cache."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

KAFKA = "4.1.0"
LOG4J = "2.24.3"
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
PACKAGES = "on Debian: apt install openjdk-17-jre-headless maven"

# kafka-tools has the commands, log4j-slf4j-impl lets the broker say what it does.
POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>laggard</groupId><artifactId>test-brokers</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{KAFKA}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{KAFKA}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>{LOG4J}</version>
    </dependency>
  </dependencies>
</project>
"""


class NoKafkaError(Exception):
    """No broker can be run on this machine; the message says what is missing. Tests fail with it, they never skip."""


def cache() -> Path:
    """The folder of one set of jars; another version has another folder."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "laggard-tests" / f"kafka-{KAFKA}-{hashlib.sha256(POM.encode()).hexdigest()[:12]}"


def jars() -> Path:
    """The folder with all jars; fetches them at first use. Several processes may ask at once."""
    kept = cache()
    if kept.is_dir():
        return kept
    kept.parent.mkdir(parents=True, exist_ok=True)
    with (kept.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.is_dir():
            _fetch(kept)
    return kept


@functools.cache
def fetch_kafka() -> None:
    """Try once to have the jars: on a new machine that takes minutes. Who needs them says what is wrong."""
    with suppress(NoKafkaError, subprocess.TimeoutExpired):
        jars()


def _fetch(kept: Path) -> None:
    """Fetch into a folder beside it, and rename that when it is complete."""
    partial = kept.with_name(kept.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    pom = partial / "pom.xml"
    pom.write_text(POM)
    fetch = ["mvn", "--quiet", "--batch-mode", "--strict-checksums", "--file", str(pom)]
    try:
        done = subprocess.run(
            [*fetch, COPY, f"-DoutputDirectory={partial}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=600,
        )
    except FileNotFoundError:
        raise NoKafkaError(f"mvn is not there, which fetches Kafka for the tests; {PACKAGES}") from None
    if done.returncode or not list(partial.glob("kafka_2.13-*.jar")):
        raise NoKafkaError(f"Maven could not fetch Kafka {KAFKA} ({PACKAGES}):\n{done.stdout[-3000:]}")
    partial.rename(kept)
