"""Kafka's jars, fetched once from Maven Central and kept in a cache."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from tests.programs import fetched, kept, path_of

if TYPE_CHECKING:
    from pathlib import Path

KAFKA = "4.1.0"
LOG4J = "2.24.3"
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"

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


def jars() -> Path:
    """The folder with all jars; another version has another folder. Raises `MissingPartError` where it cannot be."""
    version = hashlib.sha256(POM.encode()).hexdigest()[:12]
    return kept(f"kafka-{KAFKA}-{version}", _fetch, f"Kafka {KAFKA}: fetched by Maven")


def _fetch(folder: Path) -> Path:
    made, pom = folder / "jars", folder / "pom.xml"
    made.mkdir()
    pom.write_text(POM)
    fetch = [path_of("mvn"), "--quiet", "--batch-mode", "--strict-checksums", "--file", str(pom)]
    fetched(f"Kafka {KAFKA}", [*fetch, COPY, f"-DoutputDirectory={made}"])
    assert list(made.glob("kafka_2.13-*.jar"))
    return made
