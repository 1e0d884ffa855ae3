"""The largest sizes of a record and its parts. Writers and readers refuse larger ones.

For a moment, reading an encoded record needs at most twice its size plus 130 MiB of memory, whatever its bytes are.
"""

from __future__ import annotations

from typing import Final

MAX_RECORD_BYTES: Final = 64 << 20
"""Bytes of an encoded record, and of a line of JSON: the most that a bus accepts."""

MAX_ROWS: Final = 100_000
MAX_FEATURES: Final = 10_000
MAX_CELLS: Final = 4_000_000
"""Rows times features: 32 MB of values."""

MAX_NAMES_BYTES: Final = 24 << 20
"""Bytes of all names of a layout: 100,000 rows with 80 characters of ids, names and command lines need a third."""

MAX_KEY: Final = 253
"""Characters of a host's, application's, pool's or service's name and of a scope: a DNS name fits."""

MAX_NAME: Final = 1_024
"""Characters of a row's id, a row's name, a feature, a state, a system call and a request's id."""

MAX_METRIC: Final = 2 * MAX_NAME + 1
"""Characters of a metric: a row's id, a colon and a feature."""

MAX_COMMAND: Final = 4_096
"""Characters of a command line."""

MAX_NOTE: Final = 4_096
"""Characters of a note."""

MAX_DIAGNOSIS_BYTES: Final = 1_000_000
"""Bytes of a diagnosis as JSON: below the 1 MiB that Kafka's own clients accept by default."""

MAX_RESOURCES: Final = 16
"""Resources that one row uses or lacks."""

MAX_RESOURCE: Final = 64
"""Characters of the name of a resource: a few letters."""

MAX_CASES: Final = 64
"""Cases of one piece of feedback."""

MAX_HOSTS: Final = 10_000
"""Hosts that serve one application."""

MAX_STATES: Final = 10_000
"""States of a request."""

MAX_SYSCALLS: Final = 100_000
"""System calls of a request."""

MAX_SPENT: Final = 64
"""Entries for the time of a request; the last one stands for all others."""

MAX_SEGMENTS: Final = 100
"""Segments of a request's critical path: beyond, the shortest are merged into their neighbors."""

MAX_THREADS: Final = 128
"""Threads that a request's critical path names."""

MAX_NOTES: Final = 64
"""Notes of a request or diagnosis."""

MAX_PID: Final = 1 << 22
"""The id of a process or thread: `PID_MAX_LIMIT` of 64-bit Linux."""

MAX_TS: Final = 253_402_300_799.0
"""The last second of the year 9999: milliseconds by mistake lie beyond it."""

MAX_SEQUENCE: Final = (1 << 63) - 1

MAX_PLAIN_BYTES: Final = 1 << 20
"""Bytes of an encoded record outside of its byte strings. They become objects, up to a hundred times as large."""
