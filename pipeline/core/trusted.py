"""Rejects files that other users could have written: a configuration, a bus, files in the state directory.

A file or folder is trusted if its owner is root, this user, or the caller of sudo, and no other user may write it. A
group may write it if it is root's or the owner's private one (`umask 002`): with his name and no other member.

Each check uses an open descriptor, or a folder in which others can replace nothing trusted. They cannot replace the
folder or any above it, either.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
from contextlib import suppress
from pathlib import Path

MOST_LINKS = 40
"""The most links on the way to a folder: as many as Linux follows."""

_ALL = "all users"
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_WRITES_ANEW = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW


class Untrusted(PermissionError):  # noqa: N818 - named for what it says
    """Other users could have written a file, or still can; `strerror` names them, and the remedy."""

    def __init__(self, path: Path | str, reason: str) -> None:
        super().__init__(errno.EPERM, reason, str(path))


def open_trusted(path: Path | str, flags: int = os.O_RDONLY) -> int:
    """Open an existing file, and check the opened one.

    Args:
        path: the path of a regular file, or of a pipe with a file name (`/dev/stdin`).
        flags: the flags of open(2).

    Returns:
        Its descriptor, which children do not inherit.

    Raises:
        Untrusted: others could have written it.
        OSError: it cannot be opened, or is a folder or a device.

    """
    # Nonblocking, so as not to wait for the writer of a named pipe that another user put there.
    descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        check(descriptor, path)
        os.set_blocking(descriptor, True)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def check(descriptor: int, path: Path | str) -> None:
    """Check an open file. Raises the errors of `open_trusted`."""
    found = os.fstat(descriptor)
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(found.st_mode) and not stat.S_ISFIFO(found.st_mode):
        raise OSError(errno.EINVAL, "expected a regular file", str(path))
    if reason := distrust(found):
        raise Untrusted(path, reason)


def check_folder(path: Path | str) -> None:
    """Check a folder for files of laggard, and each folder on the way to it, including those of links.

    Others may write to a folder if they cannot replace those files (the sticky bit, as for `/tmp`). They also may if
    root mounted it so, as Kubernetes does with an `emptyDir`: each file in it is checked when it is opened.

    Raises:
        Untrusted: others could replace its files, or the folder itself.
        OSError: it cannot be checked.

    """
    path = Path(path)
    try:
        descriptor, here = _walk(path)
        try:
            found, shared = os.fstat(descriptor), _is_shared(descriptor)
        finally:
            os.close(descriptor)
    except Untrusted:
        raise
    except OSError as error:  # it names only a part of the path
        raise OSError(error.errno, os.strerror(error.errno or 0), str(path)) from None
    if reason := distrust(found, shared=shared):
        raise Untrusted(here, reason)


def _walk(path: Path) -> tuple[int, Path]:
    """Open a folder for its state alone, which needs no right to list it. Return its path without links, too.

    Each folder on the way is checked before the next one is opened, so that no other user can redirect the rest.
    """
    left = [*reversed(path.parts if path.is_absolute() else Path.cwd().parts + path.parts)]
    links, here, descriptor = 0, Path("/"), os.open("/", _FOLDER)
    try:
        while left:
            name = left.pop()
            if name not in {"/", "//"}:
                _check_on_the_way(descriptor, here)
                if (target := _target(name, descriptor, links)) is not None:
                    links += 1
                    left += reversed(Path(target).parts)
                    continue
            inner = os.open(name, _FOLDER, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
            here = Path("/") if name in {"/", "//"} else here.parent if name == ".." else here / name
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, here


def _target(name: str, folder: int, links: int) -> str | None:
    """Return the target of a link, after this number of earlier links; None if the name is not a link."""
    try:
        target = os.readlink(name, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.EINVAL:
            return None
        raise
    if links == MOST_LINKS:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return target


def _is_shared(folder: int) -> bool:
    """Return whether others may write to a folder: they cannot replace laggard's files, or root mounted it so."""
    found = os.fstat(folder)
    mounted = found.st_uid == 0 and os.stat("..", dir_fd=folder).st_dev != found.st_dev
    return mounted or bool(found.st_mode & stat.S_ISVTX)


def _check_on_the_way(folder: int, path: Path) -> None:
    """Check a folder that contains others. Raises `Untrusted`."""
    found = os.fstat(folder)
    if found.st_uid not in trusted_users() and _is_known(found.st_uid):
        reason = f"it belongs to {_user(found.st_uid)}"
    elif writers := _writers(found, shared=_is_shared(folder)):
        reason = f"it is writable by {writers}"
    else:
        return
    explanation = f"{reason}, who could replace what is below"
    raise Untrusted(path, f"{explanation}; use another folder, or remove the write permission of others")


def _is_known(uid: int) -> bool:
    """Return whether the id identifies a user: a user namespace shows all unmapped users as the same one."""
    with suppress(OSError, ValueError):
        if uid == int(Path("/proc/sys/kernel/overflowuid").read_bytes()):
            return Path("/proc/self/uid_map").read_bytes().split() == [b"0", b"0", b"4294967295"]
    return True


def check_beside(path: Path) -> None:
    """Check a file by name, in a checked folder, without opening it; a missing file is no problem.

    A process loses its POSIX locks on a file when it closes any descriptor of it, except for one with `O_PATH`.
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
    """Read a file of laggard. Raises the errors of `open_trusted`, and OSError if it is longer."""
    with os.fdopen(open_trusted(path), "rb") as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"expected at most {most_bytes} bytes", str(path))
    return content


def write_trusted(path: Path, content: str) -> None:
    """Replace a file of laggard, for this user alone. Raises OSError.

    The new one is written next to it, never into a file that another user may have put there under its name.
    """
    beside = path.with_name(f"{path.name}.new")
    beside.unlink(missing_ok=True)
    with os.fdopen(os.open(beside, _WRITES_ANEW, 0o600), "w", encoding="utf-8") as file:
        file.write(content)
    beside.replace(path)


def distrust(found: os.stat_result, *, shared: bool = False) -> str:
    """Return why a file is rejected, and the remedy; empty if it is trusted. With `shared` others may write."""
    if found.st_uid not in trusted_users():
        expected = "root" if os.geteuid() == 0 else f"root or {_user(os.geteuid())}"
        belongs = f"it belongs to {_user(found.st_uid)}, expected {expected}"
        return f"{belongs}; run laggard as that user, or `chown` on what you trust"
    if writers := _writers(found, shared=shared):
        return f"it is writable by {writers}; run `chmod {'o' if writers == _ALL else 'g'}-w` on it"
    return ""


def _writers(status: os.stat_result, *, shared: bool) -> str:
    """Return the others who may write a file; empty for none. With `shared` others may."""
    if shared or stat.S_ISLNK(status.st_mode):
        return ""
    if status.st_mode & stat.S_IWOTH:
        return _ALL
    if status.st_mode & stat.S_IWGRP and not _private(status.st_gid):
        return f"the group {_group(status.st_gid)}"
    return ""


def trusted_users() -> set[int]:
    """Return root, this user, and the caller of sudo, who may be root anyway."""
    users = {0, os.geteuid()}
    caller = os.environ.get("SUDO_UID", "")
    if os.geteuid() == 0 and caller.isascii() and caller.isdecimal():
        users.add(int(caller))
    return users


def _private(gid: int) -> bool:
    """Return whether all members of a group are trusted users."""
    if gid == 0:
        return True
    trusted = trusted_users()
    names = {each.pw_name for each in pwd.getpwall() if each.pw_uid in trusted}
    members = {each.pw_name for each in pwd.getpwall() if each.pw_gid == gid}
    with suppress(KeyError):  # a group without a name, as in a container
        group = grp.getgrgid(gid)
        # A directory service may not list users by primary group, so a private group must have the name of its user.
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
