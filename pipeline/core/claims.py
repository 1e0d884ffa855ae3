"""The parts of laggard that run on a bus of this machine: at most one of each kind, and one `up`.

On a networked bus one machine may run several workers and servers: each takes the first free place.

A claim is a lock on a small file next to the embedded bus. The kernel releases it when its holder ends in any way, so
nothing is ever left to clean up.
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

from laggard.pipeline.core.trusted import check, check_folder, open_trusted

if TYPE_CHECKING:
    from types import TracebackType

Part = Literal["up", "agent", "measure", "trace", "work", "serve"]

PARTS: tuple[Part, ...] = ("up", "agent", "measure", "trace", "work", "serve")

MAX_WORKERS = 64
"""The most places of a part on one machine and one networked bus."""

_TRIES = 5
_BETWEEN_TRIES_S = 0.05
_MAX_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Holder:
    """The process with a claim.

    Attributes:
        pid: its id; 0 if it has not written it yet.
        since: its start, seconds since the Unix epoch.
        url: its URL; empty without one.
        supervised: whether `laggard up` started it.

    """

    pid: int
    since: float
    url: str = ""
    supervised: bool = False


class Claimed(Exception):  # noqa: N818 - named for what it says
    """Another process already runs this part on this bus.

    Attributes:
        part: the part.
        holder: the process that runs it.

    """

    def __init__(self, part: Part, location: str, holder: Holder) -> None:
        who = f" (process {holder.pid})" if holder.pid else ""
        super().__init__(f"`laggard {part}` runs already on {location}{who}; stop that one, or name another bus")
        self.part = part
        self.holder = holder


def claim_path(location: str, state: Path, part: Part, place: int = 1) -> Path:
    """Return the file of a claim: next to the embedded bus; for another bus in the state directory.

    `place` numbers the claims of a part that may run several times.
    """
    if "://" in location:
        return state / (f"{part}.lock" if place == 1 else f"{part}-{place}.lock")
    bus = os.path.realpath(Path(location.removeprefix("embedded:")).expanduser())
    return Path(f"{bus}.{part}.lock")


def _paths(location: str, state: Path, part: Part) -> list[Path]:
    places = MAX_WORKERS if part in {"work", "serve"} and "://" in location else 1
    return [claim_path(location, state, part, place) for place in range(1, places + 1)]


class Claim:
    """The claim of one part, until it is closed or the process ends.

    Parameters:
        location: the bus.
        state: the state directory.
        part: the part.
        supervised: whether `laggard up` started this process.

    Raises:
        Claimed: another process has it.
        OSError: the file cannot be created, or other users could have written it or files in the state directory.

    """

    def __init__(self, location: str, state: Path, part: Part, *, supervised: bool = False) -> None:
        self._since = time.time()
        self._supervised = supervised
        paths = _paths(location, state, part)
        paths[0].parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_folder(paths[0].parent)
        with suppress(FileNotFoundError):
            check_folder(state)
        for path in paths:
            # It is written to. In a folder that others may write to, a link would lead to a file of their choice.
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
        self.write()

    def write(self, url: str = "") -> None:
        """Write the holder of the claim and its URL to the file."""
        fields = {"pid": os.getpid(), "since": self._since, "url": url, "supervised": self._supervised}
        text = json.dumps(fields)
        # One write over all earlier text: a concurrent reader sees the old text or the new one.
        os.pwrite(self._descriptor, text.encode().ljust(_MAX_BYTES), 0)

    def close(self) -> None:
        """Release the claim."""
        os.close(self._descriptor)

    def __enter__(self) -> Claim:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _locked(descriptor: int) -> bool:
    # A check for the holder also locks for an instant, so one refusal proves nothing.
    for attempt in range(_TRIES):
        if attempt:
            time.sleep(_BETWEEN_TRIES_S)
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    return False


def holder_of(location: str, state: Path, part: Part) -> Holder | None:
    """Return the process that runs this part on this bus, the first of several; None for none.

    Raises `OSError` if the file may not be read, or others could have written it.
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
        fields = json.loads(os.pread(descriptor, _MAX_BYTES, 0))
        pid, since, url = int(fields["pid"]), float(fields["since"]), str(fields["url"])
        return Holder(pid, since, url, bool(fields.get("supervised")))  # older versions do not write the last
    except (ValueError, KeyError, TypeError):
        return Holder(0, 0.0)
