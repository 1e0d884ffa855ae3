"""Positions in access logs, stored in a file, so that a restarted program continues where it was."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

VERSION: Final = 1
HEAD_BYTES: Final = 1024
"""The number of first bytes that identify a file; they contain times, so they are unique."""


class Identity(NamedTuple):
    """The file that a name led to. An inode may be used again once its file is gone."""

    device: int
    inode: int


@dataclass(frozen=True, slots=True)
class Position:
    """The position in one file.

    Attributes:
        path: the name by which it was found.
        device: see `Identity`.
        inode: see `Identity`.
        offset: the offset before which all requests are in published intervals.
        read: the offset up to which lines were read; published ones are known by their time, and not late.
        head_bytes: the number of known first bytes, at most `HEAD_BYTES`.
        head: the digest of these.

    """

    path: str
    device: int
    inode: int
    offset: int
    read: int
    head_bytes: int
    head: str


@dataclass(frozen=True, slots=True)
class Positions:
    """The positions in all files of a source.

    Attributes:
        paths: the names and patterns that were followed.
        until: the end of the last published interval, in seconds since the epoch.
        files: the positions in unfinished files.

    """

    paths: tuple[str, ...]
    until: float
    files: tuple[Position, ...]


def digest(head: bytes) -> str:
    """Return the digest of first bytes: the file of positions has no content of a log."""
    return hashlib.blake2b(head, digest_size=16).hexdigest()


def load_positions(path: Path) -> Positions | None:
    """Load the positions; None if there are none. Raises ValueError, with the reason, if they are unusable."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror or error}") from error
    try:
        return _positions(json.loads(text))
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"expected positions in version {VERSION}, as JSON ({error})") from error


def save_positions(path: Path, positions: Positions) -> None:
    """Save the positions: in any case the file holds either these or its former content. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.new")
    with beside.open("w", encoding="ascii") as file:
        json.dump({"version": VERSION, **asdict(positions)}, file)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def _positions(value: Any) -> Positions:
    if value["version"] != VERSION:
        raise ValueError(f"version {value['version']!r}")
    files = tuple(Position(**each) for each in value["files"])
    for each in files:
        if not 0 <= each.offset <= each.read or not 0 <= each.head_bytes <= HEAD_BYTES:
            raise ValueError(f"{each.path}: {each.offset} of {each.read}")
    return Positions(tuple(map(str, value["paths"])), float(value["until"]), files)
