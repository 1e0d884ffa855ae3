"""Opens the bus that a setting names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from laggard.pipeline.core.bus import DEFAULT_RETENTION_S, BusError
from laggard.pipeline.core.bus.kafka.options import KafkaOptions, is_kafka, servers_of

if TYPE_CHECKING:
    from laggard.pipeline.core.bus import Bus

DEFAULT_MAX_BYTES = 1 << 30


def open_bus(
    url_or_path: str | Path,
    *,
    max_bytes: int = DEFAULT_MAX_BYTES,
    retention_s: float | None = DEFAULT_RETENTION_S,
    kafka: KafkaOptions | None = None,
) -> Bus:
    """Open the bus that a setting names: a path or `embedded:PATH` for the embedded one, `kafka://b1,b2:9093`.

    `max_bytes` and `retention_s` bound an embedded bus; `kafka` has the options of Kafka except for the brokers, which
    are in the name. Raises BusError for an invalid name, and the errors of opening the bus.
    """
    name = str(url_or_path)
    scheme, separator, rest = name.partition(":")
    # Imported here, so that the code of unused buses is not loaded.
    if is_kafka(name):
        try:
            options = replace(kafka or KafkaOptions(), bootstrap=servers_of(name))
        except ValueError as error:
            raise BusError(f"expected a bus as {error}") from error
        from laggard.pipeline.core.bus.kafka.bus import KafkaBus  # noqa: PLC0415

        return KafkaBus(options)
    if "://" in name:
        raise BusError(f"{name}: no such kind of bus; expected a path, embedded:PATH or kafka://HOST:PORT")
    path = rest if separator and scheme == "embedded" else name
    if not path:
        raise BusError(f"{name!r} names no bus; expected a path, embedded:PATH or kafka://HOST:PORT")
    from laggard.pipeline.core.bus.embedded import EmbeddedBus  # noqa: PLC0415

    return EmbeddedBus(Path(path).expanduser(), max_bytes=max_bytes, retention_s=retention_s)
