"""Which part of laggard runs on a bus of this machine: at most one of each kind, and one `up`.

Of workers on a bus on the network there may be several on one machine: each takes the first place that is free.

A claim is a lock on a small file beside the embedded bus. The kernel releases it when its holder ends, however that
ends, so that nothing is ever left to clean up.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from laggard.pipeline.trusted import check, check_folder, open_trusted

if TYPE_CHECKING:
    from types import TracebackType

Part = Literal["up", "agent", "measure", "trace", "work", "serve"]

PARTS: tuple[Part, ...] = ("up", "agent", "measure", "trace", "work", "serve")

MAX_WORKERS = 64
"""On one machine and one bus on the network."""

_TRIES = 5
_BETWEEN_TRIES_S = 0.05
_MAX_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a claim, since when, and where it answers, if it does; `pid` is 0 where it has not said so yet."""

    pid: int
    since: float
    url: str = ""


class Claimed(Exception):  # noqa: N818 - named for what it says
    """Another process runs this part on this bus already.

    Attributes:
        part: which.
        holder: who has it.

    """

    def __init__(self, part: Part, location: str, holder: Holder) -> None:
        who = f" (process {holder.pid})" if holder.pid else ""
        super().__init__(f"`laggard {part}` runs already on {location}{who}; stop that one, or name another bus")
        self.part = part
        self.holder = holder


def claim_path(location: str, state: Path, part: Part, place: int = 1) -> Path:
    """The file of a claim: beside the embedded bus; for a bus elsewhere in the state directory.

    `place` numbers those of a part of which there may be several.
    """
    if "://" in location:
        return state / (f"{part}.lock" if place == 1 else f"{part}-{place}.lock")
    bus = os.path.realpath(Path(location.removeprefix("embedded:")).expanduser())
    return Path(f"{bus}.{part}.lock")


def _paths(location: str, state: Path, part: Part) -> list[Path]:
    places = MAX_WORKERS if part in {"work", "serve"} and "://" in location else 1
    return [claim_path(location, state, part, place) for place in range(1, places + 1)]


class Claim:
    """The claim of one part, held until it is closed or the process ends.

    Raises:
        Claimed: another process holds it.
        OSError: the file cannot be made, or others could have written it, or what is in the state directory.

    """

    def __init__(self, location: str, state: Path, part: Part) -> None:
        self._since = time.time()
        paths = _paths(location, state, part)
        paths[0].parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_folder(paths[0].parent)
        with suppress(FileNotFoundError):
            check_folder(state)
        for path in paths:
            # It is written to: where others may write to the folder too, a link would lead to a file of their choice.
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                check(self._descriptor, path)
            except OSError:
                os.close(self._descriptor)
                raise
            if _locked(self._descriptor):
                break
            holder = _read(self._descriptor)
            os.close(self._descriptor)
        else:
            raise Claimed(part, location, holder)
        self.tell()

    def tell(self, url: str = "") -> None:
        """Write down who holds the claim and where it answers."""
        text = json.dumps({"pid": os.getpid(), "since": self._since, "url": url})
        # In one piece, over all that may have been there: who looks meanwhile sees the one or the other.
        os.pwrite(self._descriptor, text.encode().ljust(_MAX_BYTES), 0)

    def close(self) -> None:
        """Release it."""
        os.close(self._descriptor)

    def __enter__(self) -> Claim:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _locked(descriptor: int) -> bool:
    # A look at who holds the claim locks for an instant too, so one refusal says nothing yet.
    for attempt in range(_TRIES):
        if attempt:
            time.sleep(_BETWEEN_TRIES_S)
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    return False


def holder_of(location: str, state: Path, part: Part) -> Holder | None:
    """Who runs this part on this bus, the first of several; None for nobody.

    Raises `OSError` when the file may not be read, or others could have written it.
    """
    for path in _paths(location, state, part):
        if (holder := _holder(path)) is not None:
            return holder
    return None


def _holder(path: Path) -> Holder | None:
    try:
        descriptor = open_trusted(path)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read(descriptor)
    else:
        return None
    finally:
        os.close(descriptor)


def _read(descriptor: int) -> Holder:
    try:
        said = json.loads(os.pread(descriptor, _MAX_BYTES, 0))
        return Holder(int(said["pid"]), float(said["since"]), str(said["url"]))
    except (ValueError, KeyError, TypeError):
        return Holder(0, 0.0)
