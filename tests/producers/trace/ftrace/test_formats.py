"""What tracefs says of its pages."""

from __future__ import annotations

import pytest

from laggard.producers.trace.ftrace.formats import Field, FormatError, parse_format, parse_header_page

FORK = (
    "name: sched_process_exec\nID: 365\nformat:\n"
    "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
    "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
    "\tfield:__data_loc char[] filename;\toffset:8;\tsize:4;\tsigned:0;\n"
    "\tfield:unsigned long args[6];\toffset:16;\tsize:48;\tsigned:0;\n"
    "\tfield:void * hrtimer;\toffset:64;\tsize:8;\tsigned:0;\n\n"
    'print fmt: "filename=%s pid=%d old_pid=%d", __get_str(filename), REC->pid, REC->old_pid\n'
)
HEADER = (
    "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"
    "\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n"
    "\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n"
    "\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n"
)


def test_a_format() -> None:
    form = parse_format(FORK)
    assert (form.name, form.number) == ("sched_process_exec", 365)
    assert form.fields == {
        "common_type": Field(0, 2, signed=False, dynamic=False),
        "common_pid": Field(4, 4, signed=True, dynamic=False),
        "filename": Field(8, 4, signed=False, dynamic=True),
        "args": Field(16, 48, signed=False, dynamic=False),
        "hrtimer": Field(64, 8, signed=False, dynamic=False),
    }


def test_the_pages_header() -> None:
    assert parse_header_page(HEADER) == (8, 16, 4096)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *(
            (text, "the format of an event")
            for text in ("", "name: x\n", "ID: 5\n", FORK.replace("ID: 365", "ID: many"))
        ),
        (
            FORK.replace("common_pid;\toffset:4;", "common_pid;"),
            "`field:TYPE NAME; offset:N; size:N;`, got .*common_pid",
        ),
    ],
)
def test_no_format(text: str, message: str) -> None:
    with pytest.raises(FormatError, match=f"here: expected {message}"):
        parse_format(text, place="here")


@pytest.mark.parametrize("gone", ["commit", "data", "timestamp"])
def test_a_header_without(gone: str) -> None:
    with pytest.raises(FormatError, match="expected fields timestamp"):
        parse_header_page("".join(line for line in HEADER.splitlines(keepends=True) if f" {gone};" not in line))
