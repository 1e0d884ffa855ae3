"""From a setting to a bus."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from laggard.pipeline.bus import BusError

if TYPE_CHECKING:
    from laggard.pipeline.bus import Bus

DEFAULT_MAX_BYTES = 1 << 30
DEFAULT_RETENTION_S = 48 * 3600.0


def open_bus(
    url_or_path: str | Path,
    *,
    max_bytes: int = DEFAULT_MAX_BYTES,
    retention_s: float | None = DEFAULT_RETENTION_S,
) -> Bus:
    """Open the bus that a setting names: a path or `embedded:PATH` for the embedded one.

    `max_bytes` and `retention_s` bound an embedded bus. Raises BusError for what is no such name, and what opening
    the bus raises.
    """
    name = str(url_or_path)
    scheme, separator, rest = name.partition(":")
    if name.startswith("kafka://"):
        raise BusError(f"{name}: Kafka comes with a later version of laggard; expected a path or embedded:PATH")
    if "://" in name:
        raise BusError(f"{name}: no such kind of bus; expected a path or embedded:PATH")
    path = rest if separator and scheme == "embedded" else name
    if not path:
        raise BusError(f"{name!r} names no bus; expected a path or embedded:PATH")
    # Here, so that naming a bus does not load the code of those that are not used.
    from laggard.pipeline.bus.embedded import EmbeddedBus  # noqa: PLC0415

    return EmbeddedBus(Path(path).expanduser(), max_bytes=max_bytes, retention_s=retention_s)
