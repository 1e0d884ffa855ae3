"""Files that other users could have written are not used: a configuration, a bus, what is kept in the state directory.

A file or folder is trusted where it belongs to root, to this user, or to whoever called sudo, and where nobody else may
write it. A group may, where it is root's, or the owner's private one (`umask 002`): of his name, with no other member.

Each check is one of an open descriptor, or of a folder in which others can replace nothing of what is trusted. Nor can
they replace it, or a folder that it is in.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
from contextlib import suppress
from pathlib import Path

_WRITES_ANEW = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW


class Untrusted(PermissionError):  # noqa: N818 - named for what it says
    """Other users could have written a file, or still can; `strerror` says who, and what to do."""

    def __init__(self, path: Path | str, reason: str) -> None:
        super().__init__(errno.EPERM, reason, str(path))


def open_trusted(path: Path | str, flags: int = os.O_RDONLY) -> int:
    """Open a file that is there, and check what was opened.

    Args:
        path: of a regular file, or of a pipe that is named as a file (`/dev/stdin`).
        flags: of open(2).

    Returns:
        Its descriptor, which children do not inherit.

    Raises:
        Untrusted: others could have written it.
        OSError: it cannot be opened, or is a folder or a device.

    """
    # Not to wait for whoever would write into a named pipe that a stranger put there.
    descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        check(descriptor, path)
        os.set_blocking(descriptor, True)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def check(descriptor: int, path: Path | str) -> None:
    """Check an open file. Raises what `open_trusted` does."""
    found = os.fstat(descriptor)
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(found.st_mode) and not stat.S_ISFIFO(found.st_mode):
        raise OSError(errno.EINVAL, "expected a regular file", str(path))
    if reason := distrust(found):
        raise Untrusted(path, reason)


def check_folder(path: Path | str) -> None:
    """Check a folder in which files are to be kept, and all that it is in, links resolved.

    Others may write to one where they can replace nothing of ours (the sticky bit, as `/tmp` has it), and where root
    mounted it so, as Kubernetes does with an `emptyDir`: each file in it is checked when it is opened.

    Raises:
        Untrusted: others could replace what is in it, or the folder itself.
        OSError: it cannot be looked at.

    """
    folder = Path(path).resolve()
    # For its state alone, which needs no right to list it.
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for each in (folder, *folder.parents):
            above = os.open("..", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=descriptor)
            descriptor, inner = above, descriptor
            try:
                found = os.fstat(inner)
                mounted = found.st_uid == 0 and os.fstat(above).st_dev != found.st_dev
            finally:
                os.close(inner)
            reason = distrust(found, shared=mounted or bool(found.st_mode & stat.S_ISVTX))
            if reason and (each == folder or _is_mapped(found.st_uid)):
                raise Untrusted(each, reason)
    finally:
        os.close(descriptor)


def check_beside(path: Path) -> None:
    """Check a file by name, in a folder that was checked, without opening it; one that is not there is no problem.

    Locks of POSIX on a file end when its process closes any descriptor of it, but not one with `O_PATH`.
    """
    with suppress(FileNotFoundError):
        descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            found = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        if reason := distrust(found):
            raise Untrusted(path, reason)


def read_trusted(path: Path, most_bytes: int) -> bytes:
    """Read a file that we keep. Raises what `open_trusted` does, and OSError where it is longer."""
    with os.fdopen(open_trusted(path), "rb") as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"expected at most {most_bytes} bytes", str(path))
    return content


def write_trusted(path: Path, content: str) -> None:
    """Replace a file that we keep, for this user alone. Raises OSError.

    The new one is written beside it: not into what somebody may have put there under its name.
    """
    beside = path.with_name(f"{path.name}.new")
    beside.unlink(missing_ok=True)
    with os.fdopen(os.open(beside, _WRITES_ANEW, 0o600), "w", encoding="utf-8") as file:
        file.write(content)
    beside.replace(path)


def distrust(found: os.stat_result, *, shared: bool = False) -> str:
    """Why what was found is not to be used, and what to do; empty where it may be. With `shared` others may write."""
    if found.st_uid not in trusted_users():
        expected = "root" if os.geteuid() == 0 else f"root or {_user(os.geteuid())}"
        belongs = f"it belongs to {_user(found.st_uid)}, expected {expected}"
        return f"{belongs}; run laggard as that user, or `chown` on what you trust"
    if shared or stat.S_ISLNK(found.st_mode):
        return ""
    if found.st_mode & stat.S_IWOTH:
        return "it is writable by all users; run `chmod o-w` on it"
    if found.st_mode & stat.S_IWGRP and not _private(found.st_gid):
        return f"it is writable by the group {_group(found.st_gid)}; run `chmod g-w` on it"
    return ""


def _is_mapped(uid: int) -> bool:
    """Whether this namespace of users has the user. If not, as that of `unshare --user`, not even root is told."""
    with suppress(OSError):
        lines = Path("/proc/self/uid_map").read_bytes().splitlines()
        ranges = ((int(first), int(count)) for first, _, count in map(bytes.split, lines))
        return any(first <= uid < first + count for first, count in ranges)
    return True


def trusted_users() -> set[int]:
    """Root, this user, and who called sudo, and so may be root anyway."""
    users = {0, os.geteuid()}
    caller = os.environ.get("SUDO_UID", "")
    if os.geteuid() == 0 and caller.isascii() and caller.isdecimal():
        users.add(int(caller))
    return users


def _private(gid: int) -> bool:
    """Whether a group has no members but those whom we trust."""
    if gid == 0:
        return True
    trusted = trusted_users()
    names = {each.pw_name for each in pwd.getpwall() if each.pw_uid in trusted}
    members = {each.pw_name for each in pwd.getpwall() if each.pw_gid == gid}
    with suppress(KeyError):  # one without a name, as in a container
        group = grp.getgrgid(gid)
        # A directory service may not list who has it as his first group: so only that of his own name is his own.
        if group.gr_name not in names:
            return False
        members |= set(group.gr_mem)
    return members <= names


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
