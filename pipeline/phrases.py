"""What each known feature says of its row, in plain words. A table: no code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

PROCESS: Final = {
    "cpu_user_ratio": "it uses {} of one core in user mode",
    "cpu_system_ratio": "it uses {} of one core inside the kernel",
    "cpu_wait_ratio": "it waits for a free core {} of the time",
    "cpu_children_ratio": "its ended children used {} of one core",
    "io_delay_ratio": "it waits for the disk {} of the time",
    "timeslices_per_s": "it is scheduled {} times a second",
    "page_faults_minor_per_s": "it causes {} minor page faults a second",
    "page_faults_major_per_s": "it causes {} major page faults a second",
    "switches_voluntary_per_s": "it gives up the CPU {} times a second",
    "switches_involuntary_per_s": "it is taken off the CPU {} times a second",
    "io_read_characters_per_s": "it reads {}, cached data and pipes included",
    "io_write_characters_per_s": "it writes {}, cached data and pipes included",
    "io_read_operations_per_s": "it makes {} read calls a second",
    "io_write_operations_per_s": "it makes {} write calls a second",
    "io_read_bytes_per_s": "it reads {} from disk",
    "io_write_bytes_per_s": "it writes {} to disk",
    "io_cancelled_write_bytes_per_s": "it takes back {} of writes before they reach the disk",
    "memory_rss_bytes": "it holds {} of memory",
    "memory_virtual_bytes": "it has {} of address space",
    "memory_shared_bytes": "it holds {} of shared memory",
    "memory_swap_bytes": "{} of its memory are swapped out",
    "threads": "it runs {} threads",
    "descriptors": "it holds {} open descriptors",
    "sockets": "it holds {} open sockets",
    "children": "it has {} child processes",
}

HOST: Final[dict[str, str]] = {}

PHRASES: Final[Mapping[str, Mapping[str, str]]] = {"process": PROCESS, "thread": PROCESS, "host": HOST}
"""By scope and feature, a clause with a place for the value; behind "a second", the value has no unit of time."""
