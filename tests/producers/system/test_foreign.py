"""Reads of what others control have bounds, and open nothing that they only lead to."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from laggard.producers.system import foreign

if TYPE_CHECKING:
    from collections.abc import Iterator

OWN = "/proc/self"
LARGE = 32 << 20


@contextmanager
def with_arguments(size: int) -> Iterator[int]:
    """A process whose command line has a number of bytes: it says itself where its arguments are (PR_SET_MM_MAP)."""
    program = f"""
import ctypes, mmap, os, struct
size = {size}
memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory[:-1] = b"x" * (size - 1)  # without a zero at the end the kernel takes it for a title
start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
stat = open("/proc/self/stat").read().rpartition(")")[2].split()
# start_code, end_code, start_data, end_data, start_brk, brk, start_stack, arg_start, arg_end, env_start, env_end
places = [int(stat[number - 3]) for number in (26, 27, 45, 46, 47)]
libc = ctypes.CDLL(None, use_errno=True)
libc.sbrk.restype = ctypes.c_void_p
known = [*places, libc.sbrk(0), int(stat[28 - 3]), start, start + size, int(stat[50 - 3]), int(stat[51 - 3])]
text = struct.pack("=11QQIi", *known, 0, 0, -1)
assert libc.prctl(35, 14, text, len(text), 0) == 0, ctypes.get_errno()
print("ready", flush=True)
input()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process.pid
        process.kill()


def test_a_text_is_read_up_to_its_bound() -> None:
    with with_arguments(LARGE) as pid:
        path = f"/proc/{pid}/cmdline"
        assert len(Path(path).read_bytes()) >= LARGE  # so it is with a bound only
        assert foreign.content(path) == b"x" * foreign.TEXT_BYTES
        assert foreign.content(path, 800) == b"x" * 800


def test_a_long_text_that_comes_in_pieces_is_whole(tmp_path: Path) -> None:
    text = os.urandom(200_000)
    (tmp_path / "text").write_bytes(text)
    assert foreign.head(str(tmp_path / "text"), 1 << 20) == text
    assert foreign.head(str(tmp_path / "text"), 150_000) == text[:150_000]


def test_what_cannot_be_read_is_empty_or_tells_why(tmp_path: Path) -> None:
    assert foreign.content(str(tmp_path / "none")) == b""
    with pytest.raises(FileNotFoundError):
        foreign.head(str(tmp_path / "none"))
    os.mkfifo(tmp_path / "pipe")
    assert foreign.content(str(tmp_path / "pipe")) == b""  # it has no writer, and it does not wait


def test_a_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"one\ntwo\nthree\n")
    assert foreign.lines(str(tmp_path / "text"), 14).splitlines() == [b"one", b"two", b"three"]
    assert foreign.lines(str(tmp_path / "text"), 15).splitlines() == [b"one", b"two", b"three"]
    assert foreign.lines(str(tmp_path / "text"), 10).splitlines() == [b"one", b"two"]
    assert foreign.lines(str(tmp_path / "text"), 2).splitlines() == []


def test_the_number_of_names_read_from_a_folder_is_limited(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / str(number)).touch()
    assert sorted(foreign.names(str(tmp_path)), key=int) == [str(number) for number in range(30)]
    assert len(foreign.names(str(tmp_path), 7)) == 7
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    assert foreign.folders(str(tmp_path)) == [str(tmp_path / "folder")]


def opened(path: Path, uid: int | None = None) -> bytes:
    descriptor = foreign.opened(OWN, str(path), os.geteuid() if uid is None else uid)
    try:
        return os.read(descriptor, 100)
    finally:
        os.close(descriptor)


def test_a_regular_file_below_a_root_is_opened(tmp_path: Path) -> None:
    (tmp_path / "map").write_bytes(b"7f00 10 work")
    assert opened(tmp_path / "map") == b"7f00 10 work"
    with pytest.raises(FileNotFoundError):
        opened(tmp_path / "none")


def test_no_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "map").symlink_to("secret")
    (tmp_path / "folder").symlink_to(tmp_path)
    (tmp_path / "magic").symlink_to("/proc/self/fd/0")
    for path in ("map", "folder/secret", "magic"):
        with pytest.raises(OSError) as refused:  # noqa: PT011 - the number tells
            opened(tmp_path / path)
        assert refused.value.errno == errno.ELOOP


def test_what_is_no_regular_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        for path in (tmp_path / "pipe", tmp_path / "socket", tmp_path, Path("/dev/tty"), Path("/dev/zero")):
            with pytest.raises(OSError, match="expected a regular file"):
                opened(path)


def test_a_file_that_the_user_may_not_read_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_bytes(b"secret")
    (tmp_path / "theirs").chmod(0o640)
    with pytest.raises(PermissionError, match="expected a file that user 65534 may read"):
        opened(tmp_path / "theirs", 65534)
    (tmp_path / "theirs").chmod(0o644)
    assert opened(tmp_path / "theirs", 65534) == b"secret"


def test_without_openat2_nothing_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "map").touch()
    monkeypatch.setattr(foreign, "_OPENAT2", 10_000)  # no such system call
    with pytest.raises(OSError, match=r"the kernel has no openat2\(2\)"):
        opened(tmp_path / "map")


def mapping_of(path: Path) -> tuple[int, int]:
    for line in Path("/proc/self/maps").read_text().splitlines():
        if line.endswith(str(path)):
            begin, _, end = line.split()[0].partition("-")
            return int(begin, 16), int(end, 16)
    raise AssertionError(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="it takes root to open what others have mapped")
def test_a_mapped_file_is_opened_whatever_lies_at_its_path(tmp_path: Path) -> None:
    path = tmp_path / "library"
    path.write_bytes(b"mine".ljust(mmap.PAGESIZE))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as memory:
        place = mapping_of(path)
        path.unlink()
        path.symlink_to("/etc/shadow")
        descriptor = foreign.mapped(OWN, *place)
        try:
            assert os.read(descriptor, mmap.PAGESIZE) == memory[:]
        finally:
            os.close(descriptor)
    with pytest.raises(FileNotFoundError):
        foreign.mapped(OWN, *place)


def test_the_program_that_runs_is_opened() -> None:
    descriptor = foreign.program(OWN)
    try:
        assert os.path.samestat(os.fstat(descriptor), os.stat(sys.executable))  # noqa: PTH116 - samestat wants it
    finally:
        os.close(descriptor)


def test_the_structure_is_the_kernels() -> None:
    assert ctypes.sizeof(foreign._How) == 24
