"""The remains of killed recorders below tracefs: their instances, probes and markers, and how they are removed."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from pathlib import Path
from typing import Final

from laggard.producers.trace.ftrace.tracefs import GROUP, LEAST_BUFFER_KIB, PREFIX, TRACEFS, append, unmount

_MOUNTED: Final = re.compile(rf"/instances/({PREFIX}\w+)/trace_marker(?://deleted)?")
_ESCAPED: Final = re.compile(r"\\(\d{3})")  # blanks and similar characters, in octal


def remove_stale(root: Path = TRACEFS) -> list[str]:
    """Remove the remains of killed recorders: unused instances, and probes and markers without an instance.

    An instance whose marker another program holds open cannot be removed yet. Its events are disabled and its probes
    and markers are removed, so that it costs nothing; a later call removes it.

    Returns:
        The names of removed objects.

    """
    removed = []
    with contextlib.suppress(OSError):
        for path in list((root / "instances").glob(f"{PREFIX}*")):
            with contextlib.suppress(FileNotFoundError):  # another recorder was faster
                if remove_folder(path):
                    removed.append(path.name)
                elif _abandoned(path):
                    (path / "events/enable").write_text("0")
    with contextlib.suppress(OSError):
        for line in (root / "dynamic_events").read_text().splitlines():
            event = line.split()[0].partition(":")[2]
            group = event.partition("/")[0]
            if not group.startswith(GROUP) or _in_use(root, PREFIX + group.removeprefix(GROUP)):
                continue
            with contextlib.suppress(OSError):
                append(root / "dynamic_events", f"-:{event}")
                removed.append(event)
    with contextlib.suppress(OSError):
        for marker in _stale_markers(root):
            unmount(marker)
            marker.unlink()
            removed.append(str(marker))
    return removed


def _in_use(root: Path, name: str) -> bool:
    """Return whether a recorder lives that has this instance."""
    path = root / "instances" / name
    return path.exists() and not _abandoned(path)


def _abandoned(path: Path) -> bool:
    """Return whether the recorder of an instance has ended: the kernel then stops it and frees its buffers.

    A new instance has larger buffers, as has a recorder that pauses.
    """
    try:
        stopped = (path / "tracing_on").read_text().strip() == "0"
        return stopped and int((path / "buffer_size_kb").read_text().split()[0]) < LEAST_BUFFER_KIB
    except (OSError, ValueError, IndexError):  # removed meanwhile, or CPUs with different sizes
        return False


def _stale_markers(root: Path) -> list[Path]:
    """Return the mount points of marker files without a recorder. Source: proc_pid_mountinfo(5)."""
    device = root.stat().st_dev
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        _, _, numbers, inside, place, *_ = line.split()
        match = _MOUNTED.fullmatch(inside)
        if not match or numbers != f"{os.major(device)}:{os.minor(device)}":
            continue
        if not _in_use(root, match[1]):
            found.append(Path(_ESCAPED.sub(lambda code: chr(int(code[1], 8)), place)))
    return found


def remove_folder(path: Path) -> bool:
    """Remove an instance, and return whether that worked: it is in use otherwise. Raises `FileNotFoundError`."""
    try:
        path.rmdir()
    except OSError as error:
        if error.errno in {errno.EBUSY, errno.ENODEV}:  # the latter while another program removes it, too
            return False
        raise
    return True
