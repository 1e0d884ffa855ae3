"""What the texts below `/proc/PID` say of a thread, and the names of system calls."""

from __future__ import annotations

import pytest

from laggard.pipeline.core.records.diagnosis import Location
from laggard.producers.diagnosis import system_calls
from laggard.producers.diagnosis.parsers import (
    Blocked,
    parse_namespace_ids,
    parse_process_id,
    parse_stack,
    parse_syscall,
    parse_user_id,
    parse_wchan,
)
from laggard.producers.system.proc import ProcError


@pytest.mark.parametrize(
    ("parse", "text", "expected"),
    [
        (
            parse_syscall,
            b"202 0x7f66 0x189 0x0 0x0 0x0 0xffffffff 0x7f65e9f4a8c0 0x7f116ad14417\n",
            Blocked(202, 0x7F116AD14417, 0x7F65E9F4A8C0, (0x7F66, 0x189, 0, 0, 0, 0xFFFFFFFF)),
        ),
        (parse_syscall, b"-1 0x7ffc74e71b70 0x55fad970a580\n", Blocked(None, 0x55FAD970A580, 0x7FFC74E71B70, ())),
        (parse_syscall, b"running\n", None),
        (parse_syscall, b"", None),
        (parse_wchan, b"futex_do_wait", "futex_do_wait"),
        (parse_wchan, b"0", ""),
        (parse_wchan, b"", ""),
        (parse_wchan, b"a\x1b[2Jb", "a?[2Jb"),
        (parse_namespace_ids, b"Name:\tx\nNStgid:\t9 8\nNSpid:\t4711\t17\t1\nNSpgid:\t0\n", (4711, 17, 1)),
        (parse_namespace_ids, b"Name:\tx\n", ()),
        (parse_namespace_ids, b"Name:\tx\nNSpid:\tx\n", ()),
        (parse_user_id, b"Name:\tx\nUid:\t1000\t0\t0\t0\n", 1000),
        (parse_user_id, b"Name:\tx\n", None),
        (parse_process_id, b"Name:\tx\nTgid:\t4711\nPid:\t4712\n", 4711),
        (parse_process_id, b"", None),
    ],
    ids=[
        *("blocked in a system call, at an instruction", "blocked at a page fault", "running", "it has ended"),
        *("waits in a function of the kernel", "waits in none", "no wait channel", "an odd wait channel"),
        *("ids in pid namespaces, the outermost first", "no pid namespaces", "no ids"),
        *("a process is its real user's", "no user", "a thread belongs to a process", "no process"),
    ],
)
def test_what_the_texts_say(parse, text, expected):
    assert parse(text) == expected


@pytest.mark.parametrize("text", [b"walking\n", b"202 0x1 elsewhere\n"])
def test_another_text_of_a_system_call_is_an_error_that_names_the_file(text):
    with pytest.raises(ProcError, match="/proc/7/task/7/syscall, the system call: expected `running`"):
        parse_syscall(text, "/proc/7/task/7/syscall")


def test_a_kernel_stack_has_the_innermost_function_first():
    text = b"[<0>] folio_wait_bit_common+0x136/0x340\n[<0>] nfs_wait_bit+0x2a/0x70 [nfs]\n[<ffffffff81>] 0xffffffff81\n"
    assert parse_stack(text) == (
        Location("folio_wait_bit_common", "[kernel]"),
        Location("nfs_wait_bit", "[kernel]"),
        Location("0xffffffff81", "[kernel]"),
    )
    assert parse_stack(b"") == ()
    with pytest.raises(ProcError, match="stack, a frame: expected"):
        parse_stack(b"folio_wait\n")


@pytest.mark.parametrize(
    ("number", "bits", "machine", "expected"),
    [
        (0, 64, "x86_64", "read"),
        (202, 64, "x86_64", "futex"),
        (240, 32, "x86_64", "futex"),
        (98, 64, "aarch64", "futex"),
        (240, 32, "aarch64", "futex"),
        (4_095, 64, "x86_64", "syscall_4095"),
        (98, 64, "pdp11", "syscall_98"),
    ],
)
def test_system_calls_have_the_names_of_their_machine(number, bits, machine, expected):
    # As in arch/x86/entry/syscalls/*.tbl and include/uapi/asm-generic/unistd.h of Linux.
    assert system_calls.name(number, bits=bits, machine=machine) == expected
