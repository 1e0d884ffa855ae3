"""How far access logs were read, kept in a file, so that a program that begins again goes on where it was."""

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
"""So much of a file's begin tells it from others; with the times in it, there is no other like it."""


class Identity(NamedTuple):
    """What file a name led to. An inode may come again once its file is gone."""

    device: int
    inode: int


@dataclass(frozen=True, slots=True)
class Position:
    """How far one file was read.

    Attributes:
        path: the name it was found by.
        device: of `Identity`.
        inode: likewise.
        offset: all requests before it are in intervals that were told.
        read: up to there lines were read: what is told already is known by its time, not new and late.
        head_bytes: how much of the file's begin is known, at most `HEAD_BYTES`.
        head: its digest.

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
    """How far all files of a source were read.

    Attributes:
        paths: the names and patterns that were followed.
        until: the end of the last interval that was told, in seconds since the epoch.
        files: those that are not done with.

    """

    paths: tuple[str, ...]
    until: float
    files: tuple[Position, ...]


def digest(head: bytes) -> str:
    """Of a file's begin: the file of positions holds nothing of what is in a log."""
    return hashlib.blake2b(head, digest_size=16).hexdigest()


def load_positions(path: Path) -> Positions | None:
    """What was kept; None where nothing was. Raises ValueError where it cannot be used, with the reason."""
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
    """Keep them: whatever happens, the file holds either these or what it held before. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.new")
    with beside.open("w", encoding="ascii") as file:
        json.dump({"version": VERSION, **asdict(positions)}, file)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def _positions(found: Any) -> Positions:
    if found["version"] != VERSION:
        raise ValueError(f"version {found['version']!r}")
    files = tuple(Position(**each) for each in found["files"])
    for each in files:
        if not 0 <= each.offset <= each.read or not 0 <= each.head_bytes <= HEAD_BYTES:
            raise ValueError(f"{each.path}: {each.offset} of {each.read}")
    return Positions(tuple(map(str, found["paths"])), float(found["until"]), files)
