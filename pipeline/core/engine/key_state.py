"""The state of one key, as `States` manages it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from laggard.pipeline.core.records.limits import MAX_TS

if TYPE_CHECKING:
    from laggard.pipeline.core.records import Decoder


class KeyState(Protocol):
    """The state of one key.

    Attributes:
        records: the number of records of the key that have changed it.
        last_number: the number of records of the partition before the last of these; see `States.counted`.

    """

    records: int
    last_number: int

    @property
    def ts(self) -> float:
        """The time of the state, seconds since the Unix epoch; 0 without one."""

    @property
    def awaited_until(self) -> float:
        """The time until which further records of the key are awaited, seconds since the Unix epoch; or infinity."""

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""

    def restore(self, state: dict[str, Any], decoder: Decoder, place: str) -> None:
        """Restore a `snapshot`. Raises `ValueError` or `KeyError` that names the part that does not fit."""


State = TypeVar("State", bound=KeyState)


def time_of(keyed: KeyState) -> float:
    """Return the time of a state, for its snapshot; 0 without a valid one."""
    try:
        ts = float(keyed.ts)
    except Exception:  # noqa: BLE001 - a third-party state may raise anything
        return 0.0
    return ts if 0.0 <= ts <= MAX_TS else 0.0
