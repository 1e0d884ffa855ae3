"""What an address of a process is: of real processes, and of what is seldom so."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from laggard.pipeline.core.records.diagnosis import Location
from laggard.producers.diagnosis.addresses import AddressSpace, CodeMap, Mapping, kernel_location, parse_maps
from laggard.producers.diagnosis.helper import thread_time
from laggard.producers.diagnosis.symbols import SymbolFiles
from laggard.producers.system.clock import Clock
from laggard.producers.system.proc import ProcError
from tests.misbehaving.programs import compiled, misbehaving
from tests.programs import path_of


@pytest.fixture
def files():
    with SymbolFiles() as files:
        yield files


def space_of(pid, files, **options):
    return AddressSpace(pid, clock=Clock(), files=files, **options)


def address_of(pid, function):
    """Where a function of the program `burning` is in a process."""
    text = subprocess.run([path_of("nm"), compiled("burning")], capture_output=True, text=True, check=True).stdout
    (value,) = [int(line.split()[0], 16) for line in text.splitlines() if line.endswith(f" {function}")]
    maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return min(int(line.split("-")[0], 16) for line in maps if "burning" in line) + value


def test_maps_are_parsed():
    text = (
        b"55e0f0a00000-55e0f0a01000 r--p 00000000 fe:00 1234 /usr/bin/a program\n"
        b"55e0f0a01000-55e0f0a02000 r-xp 00001000 fe:00 1234                    /usr/bin/a program (deleted)\n"
        b"7f0000000000-7f0000001000 rwxp 00000000 00:00 0 \n"
        b"7ffd00000000-7ffd00002000 r-xp 00000000 00:00 0    [vdso]\n"
    )
    mappings = parse_maps(text)
    assert mappings == [
        Mapping(0x55E0F0A01000, 0x55E0F0A02000, 0x1000, "fe:00", "/usr/bin/a program (deleted)"),
        Mapping(0x7F0000000000, 0x7F0000001000, 0, "00:00", ""),
        Mapping(0x7FFD00000000, 0x7FFD00002000, 0, "00:00", "[vdso]"),
    ]
    assert [mapping.is_file for mapping in mappings] == [True, False, False]
    with pytest.raises(ProcError, match=r"/proc/1/maps, line: expected BEGIN-END .* got b'55e0 r-xp'"):
        parse_maps(b"55e0 r-xp", "/proc/1/maps")


def test_a_function_of_this_process(files):
    address = ctypes.cast(ctypes.CDLL(None).getpid, ctypes.c_void_p).value
    assert address
    space = space_of(os.getpid(), files)
    location = space.locate(address)
    assert location.function.endswith("getpid")
    assert "libc" in location.module
    mappings = parse_maps(Path("/proc/self/maps").read_bytes())
    (mapping,) = (mapping for mapping in mappings if mapping.begin <= address < mapping.end)
    assert location.offset == address - mapping.begin + mapping.offset
    for nowhere in (16, (1 << 64) - 1):
        assert space.locate(nowhere) is None


def test_an_address_to_return_to_belongs_to_the_function_that_called(files):
    with misbehaving([compiled("burning")], busy=False) as program:
        space = space_of(program.pid, files)
        behind = address_of(program.pid, "serve")
        function = space.locate(behind - 1)
        assert space.locate(behind).function == "serve"
        caller = space.locate(behind, caller=True)
    assert caller.function == (function.function if function else "")
    assert caller.function != "serve"


def test_a_deleted_program_and_one_that_was_replaced_have_their_own_names(files, tmp_path):
    path = tmp_path / "burning"
    shutil.copy(compiled("burning"), path)
    with misbehaving([path], busy=False) as program:
        path.unlink()
        shutil.copy("/bin/true", path)
        location = space_of(program.pid, files).locate(address_of(program.pid, "grind"))
    assert location.function == "grind"
    assert location.module == str(path)


def test_where_the_first_thread_has_ended_the_others_still_have_their_functions(files):
    program = (
        "import ctypes, os, threading, time\n"
        "def live():\n"
        "    print(ctypes.cast(ctypes.CDLL(None).getpid, ctypes.c_void_p).value, flush=True)\n"
        "    time.sleep(60)\n"
        "threading.Thread(target=live).start()\n"
        "ctypes.CDLL(None).pthread_exit(None)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            address = int(process.stdout.readline())
            until = time.monotonic() + 10
            while Path(f"/proc/{process.pid}/maps").read_bytes() and time.monotonic() < until:
                time.sleep(0.01)
            assert Path(f"/proc/{process.pid}/maps").read_bytes() == b""
            location = space_of(process.pid, files).locate(address)
        finally:
            process.kill()
    assert location.function.endswith("getpid")


def test_of_a_process_that_is_gone_nothing_is_known(files):
    with subprocess.Popen(["true"]) as process:
        process.wait()
    assert space_of(process.pid, files).locate(4096) is None


def test_files_of_a_network_are_not_read(files, tmp_path):
    """A copy of /proc says that the program's file is on NFS: to read it could hang."""
    with misbehaving([compiled("burning")], busy=False) as program:
        address = address_of(program.pid, "grind")
        root = tmp_path / str(program.pid)
        root.mkdir()
        maps = Path(f"/proc/{program.pid}/maps").read_bytes()
        (root / "maps").write_bytes(maps)
        (root / "root").symlink_to("/")
        device = next(mapping.device for mapping in parse_maps(maps) if mapping.path.endswith("burning"))
        major, minor = (int(part, 16) for part in device.split(":"))
        for kind, function in (("ext4", "grind"), ("nfs4", ""), ("fuse.sshfs", "")):
            (root / "mountinfo").write_text(f"21 1 {major}:{minor} / / rw - {kind} server:/export rw\n")
            assert space_of(program.pid, files, root=str(tmp_path)).locate(address).function == function, kind


def test_code_that_was_made_at_run_time_is_named_by_its_map(files):
    program = (
        "import mmap, ctypes, os\n"
        "memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)\n"
        "print(ctypes.addressof(ctypes.c_char.from_buffer(memory)), flush=True)\n"
        "input()\n"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        path = Path(f"/tmp/perf-{process.pid}.map")
        try:
            assert process.stdout
            begin = int(process.stdout.readline())
            space = space_of(process.pid, files)
            assert space.code_map == str(path)
            assert space.locate(begin + 8) == Location("", "", begin + 8)
            path.write_text(f"{begin:x} 10 an old one\n{begin:x} 20 a function made (later)\nnot a line\n")
            space.read_code_map()
            assert space.locate(begin + 8) == Location("a function made (later)")
            assert space.locate(begin + 32) == Location("", "", begin + 32)
        finally:
            path.unlink(missing_ok=True)
            process.kill()


@pytest.mark.skipif(os.geteuid() != 0, reason="takes other users")
def test_a_map_of_code_that_another_user_has_put_there_is_not_believed(files):
    with subprocess.Popen(["sleep", "60"], user=65534) as process:
        path = Path(f"/tmp/perf-{process.pid}.map")
        try:
            path.write_text("1000 10 forged\n")
            os.chown(path, 65533, 65533)
            codes = CodeMap(f"/proc/{process.pid}", files)
            assert codes.name(0x1008) == ""
            os.chown(path, 65534, 65534)
            assert codes.name(0x1008) == "forged"
        finally:
            path.unlink(missing_ok=True)
            process.kill()


@pytest.mark.skipif(os.geteuid() != 0, reason="takes other users")
@pytest.mark.parametrize("kind", ["a link", "a pipe", "a folder", "root's alone", "a link to the folder"])
def test_what_lies_in_the_place_of_a_map_of_code_is_not_opened(files, tmp_path, kind):
    """Root followed the link, and would have waited for the pipe."""
    secret = tmp_path / "secret"
    secret.write_text("1000 10 secret\n")
    secret.chmod(0o600)
    with subprocess.Popen(["sleep", "60"], user=65534) as process:
        path = Path(f"/tmp/perf-{process.pid}.map")
        try:
            match kind:
                case "a link":
                    path.symlink_to(secret)
                case "a pipe":
                    os.mkfifo(path)
                case "a folder":
                    path.mkdir()
                case "root's alone":
                    shutil.copy(secret, path)
                    path.chmod(0o600)
                case _:
                    path.symlink_to(tmp_path)
            assert CodeMap(f"/proc/{process.pid}", files).name(0x1008) == ""
        finally:
            path.rmdir() if kind == "a folder" else path.unlink()
            process.kill()
    assert len(files) == 0


def test_a_map_of_code_that_always_changes_is_not_read_at_each_address(files):
    """It had all of it parsed for each address that it has no name for."""
    path = Path(f"/tmp/perf-{os.getpid()}.map")
    codes = CodeMap("/proc/self", files)
    try:
        path.write_text("".join(f"{0x10000 + number:x} 1 function\n" for number in range(100_000)))
        begun, spent_s = time.monotonic(), thread_time()
        for number in range(200):
            with path.open("a") as file:
                file.write("10 1 more\n")
            assert codes.name(number + 0x100) == ""
        spent_s, lasted_s = thread_time() - spent_s, time.monotonic() - begun
        assert spent_s < 0.1 * lasted_s + 1.0
    finally:
        path.unlink()
    assert len(files) == 1


@pytest.mark.parametrize(
    "text",
    [
        b"1000 10",
        b"x" * 10_000,
        b"1000 " + b"f" * 100_000 + b" a\n",
        b"f" * 100_000 + b" 10 a\n",
        b"-1000 -10 a\n",
        b"\xff\x00 10 a\n" * 1000,
        b"1000 10 \n",
        b"ffffffffffffffff ffffffffffffffff a\n",
    ],
)
def test_a_hostile_map_of_code_tells_what_is_in_order(files, text, tmp_path):
    (tmp_path / "map").write_bytes(text + b"\n2000 10 " + b"n" * 10_000 + b"\n")
    key = files.add(os.open(tmp_path / "map", os.O_RDONLY))
    assert files.code(key, 0x2008) == "n" * 512
    assert files.code(key, 0x2010) == ""
    assert files.notes == []


def test_of_a_long_map_of_code_the_newest_functions_are_known(files, tmp_path):
    with (tmp_path / "map").open("w") as file:
        for number in range(400_000):
            file.write(f"{0x1000 + 16 * number:x} 10 {'f' * 40}{number}\n")
    key = files.add(os.open(tmp_path / "map", os.O_RDONLY))
    assert files.code(key, 0x1000 + 16 * 399_999) == "f" * 40 + "399999"
    assert files.code(key, 0x1000) == ""
    assert files.notes == []


def test_addresses_of_the_kernel_are_not_told():
    location = kernel_location(0xFFFFFFFF81000000)
    assert location.module == "[kernel]"
    assert location.offset == -1


MANY = """
import ctypes, os, sys
library = ctypes.CDLL(None, use_errno=True)
library.mmap.restype = ctypes.c_void_p
library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
file = os.open(sys.argv[1], os.O_RDONLY)
for number in range(int(sys.argv[2])):
    assert library.mmap(None, 4096, 5, 2, file, 0) != 2**64 - 1, ctypes.get_errno()
print("ready", flush=True)
sys.stdin.readline()
"""
MEASURED = """
import resource, sys
from laggard.producers.system.clock import Clock
from laggard.producers.diagnosis.addresses import AddressSpace
from laggard.producers.diagnosis.symbols import SymbolFiles
files = SymbolFiles()
space = AddressSpace(int(sys.argv[1]), clock=Clock(), files=files)
begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert space.locate(4096) is None
print(len(space.notes), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - begun)
"""


@pytest.mark.slow
@pytest.mark.parametrize("long", [False, True], ids=["short names", "long names"])
def test_of_many_mappings_a_bounded_number_is_known_and_that_is_noted(long, tmp_path):
    """60,000 of names of 2,400 bytes took the memory of `laggard diagnose` to 489 MB."""
    folder = tmp_path.joinpath(*["x" * 200] * 12) if long else tmp_path
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "library").write_bytes(bytes(4096))
    with subprocess.Popen(
        [sys.executable, "-c", MANY, folder / "library", "60000"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
            command = [sys.executable, "-c", MEASURED, str(process.pid)]
            notes, grown_kb = map(int, subprocess.run(command, capture_output=True, check=True).stdout.split())
        finally:
            process.kill()
    assert notes == 1
    assert grown_kb < 100_000
