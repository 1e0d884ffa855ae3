"""Names of functions in files and in the kernel: compared with what `nm` says, and of files that are not right."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from laggard.producers.diagnosis.elf import SymbolsError, SymbolTable, demangled
from laggard.producers.diagnosis.symbols import KernelSymbols, SymbolFiles
from tests.misbehaving.programs import compiled
from tests.producers.diagnosis.profiled import held
from tests.programs import path_of

LIBC = re.findall(r"/\S*/libc\.so\.6$", Path("/proc/self/maps").read_text(), re.MULTILINE)[0]


def opened(path):
    return os.open(path, os.O_RDONLY)


def functions_by_nm(path, *options):
    """Value, size and name of each function that has a size, as binutils read them."""
    text = subprocess.run(
        [path_of("nm"), "-S", "--defined-only", *options, path], capture_output=True, text=True, check=True
    )
    rows = (line.split() for line in text.stdout.splitlines())
    return [
        (int(row[0], 16), int(row[1], 16), row[3].partition("@")[0])
        for row in rows
        if len(row) == 4 and row[2] in "tTwWi"
    ]


@cache
def segments(path):
    """The loaded parts of a file, as `readelf` reads them."""
    return subprocess.run(
        [path_of("readelf"), "-lW", path], capture_output=True, text=True, check=True
    ).stdout.splitlines()


def offset_of(path, address):
    """Return the offset in the file of the code that is loaded at this address."""
    for line in segments(path):
        words = line.split()
        if words[:1] == ["LOAD"]:
            offset, begin, size = int(words[1], 16), int(words[2], 16), int(words[4], 16)
            if begin <= address < begin + size:
                return address - begin + offset
    raise AssertionError(hex(address))


@pytest.mark.slow
@pytest.mark.parametrize("options", [["-D"], []], ids=["exported", "all"])
def test_every_function_has_the_name_that_nm_gives_it(options):
    path = LIBC if options else compiled("burning")
    functions = functions_by_nm(path, *options)
    assert len(functions) > 5
    files = SymbolFiles()
    key = files.add(opened(path))
    for address, size, _ in functions[:: max(1, len(functions) // 200)]:
        for at in (address, address + size - 1):
            offset = offset_of(path, at)
            expected = {function for begin, length, function in functions if begin <= at < begin + length}
            assert files.name(key, offset) in expected, hex(at)
    files.close()


def test_between_functions_there_is_no_name():
    path = compiled("burning")
    functions = sorted(functions_by_nm(path))
    end = next(
        begin + size for (begin, size, _), (following, *_) in pairwise(functions) if size and begin + size < following
    )
    with SymbolFiles() as files:
        key = files.add(opened(path))
        assert [files.name(key, at) for at in (offset_of(path, end), 0, 1 << 40, 1 << 64, -1)] == [""] * 5
        assert files.notes == []


def test_a_stripped_program_has_no_names_and_no_error(tmp_path):
    stripped = tmp_path / "stripped"
    subprocess.run([path_of("strip"), "-o", stripped, compiled("burning")], check=True)
    with SymbolFiles() as files:
        key = files.add(opened(stripped))
        assert {files.name(key, offset) for offset in range(0x1000, 0x2000, 16)} == {""}
        assert files.notes == []


@pytest.mark.parametrize(
    "content",
    [b"", b"#!/bin/sh\n", b"\x7fELF", b"\x7fELF\x02\x01\x01" + bytes(9), b"\x7fELF\x03\x01\x01" + bytes(200)],
    ids=["empty", "script", "mark alone", "no headers", "unknown class"],
)
def test_what_is_not_elf_is_refused_by_the_table_and_has_no_names(tmp_path, content):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(SymbolsError, match="expected ELF"):
        SymbolTable(opened(path))
    with SymbolFiles() as files:
        assert files.name(files.add(opened(path)), 4096) == ""
        assert files.notes == []


def test_any_cut_or_damaged_file_is_refused_or_read(tmp_path):
    whole = Path(compiled("burning")).read_bytes()
    (sections_at,) = struct.unpack_from("<Q", whole, 40)
    path = tmp_path / "file"
    for number, size in enumerate([*range(0, len(whole), 997), sections_at, sections_at + 64]):
        damaged = bytearray(whole[:size])
        if size > 64:
            damaged[32 + number % 32] ^= 1 << number % 8
        path.write_bytes(damaged)
        descriptor = os.open(path, os.O_RDONLY)
        try:
            table = SymbolTable(descriptor)
        except SymbolsError:
            with pytest.raises(OSError, match="Bad file"):
                os.fstat(descriptor)  # it was closed
        else:
            table.name(0x1200)
            table.close()


@pytest.mark.slow
def test_a_file_that_is_replaced_is_read_anew_and_few_files_are_held(tmp_path):
    path = tmp_path / "program"
    shutil.copy(compiled("burning"), path)
    offset = {function: offset_of(path, address) for address, _, function in functions_by_nm(path)}["grind"]
    before = held()
    with SymbolFiles(limit=2) as files:
        assert files.name(files.add(opened(path)), offset) == "grind"
        path.unlink()
        path.write_bytes(b"not a program any more")
        assert files.name(files.add(opened(path)), offset) == ""
        for number in range(5):
            path = tmp_path / str(number)
            shutil.copy(compiled("burning"), path)
            assert files.name(files.add(opened(path)), offset) == "grind"
        assert held() <= before + 2
    assert held() <= before


def test_names_are_as_in_the_source():
    assert demangled(b"_ZNSt6vectorIiSaIiEE9push_backEOi") == "std::vector<int, std::allocator<int> >::push_back(int&&)"
    assert demangled(b"_Z") == "_Z"
    assert demangled(b"main") == "main"
    assert demangled(b"\x1b[31m") == "?[31m"


def test_functions_of_the_kernel(tmp_path):
    path = tmp_path / "kallsyms"
    path.write_text(
        "ffffffff81000100 T second\nffffffff81000000 t first\t[module]\n"
        "ffffffff81000080 D data\nffffffff81000200 W third\n"
    )
    symbols = KernelSymbols(str(path))
    assert len(symbols) == 3
    named = [symbols.name(0xFFFFFFFF81000000 + at) for at in (0, 0xFF, 0x100, 0x300)]
    assert named == ["first", "first", "second", "third"]
    assert symbols.name(0xFFFFFFFF80000000) == ""


def test_where_the_kernel_hides_its_addresses_nothing_is_named(tmp_path):
    path = tmp_path / "kallsyms"
    path.write_text("0000000000000000 T first\nneither read nor understood\n")
    assert len(KernelSymbols(str(path))) == 0
    assert KernelSymbols(str(path)).name(0xFFFFFFFF81000000) == ""
    assert KernelSymbols(str(tmp_path / "missing")).name(0xFFFFFFFF81000000) == ""
