"""How large a record and its parts may be: what is beyond is refused, by the one who writes and the one who reads.

Reading an encoded record takes, whatever its bytes are, at most twice their size and 130 MiB more for a moment.
"""

from __future__ import annotations

from typing import Final

MAX_RECORD_BYTES: Final = 64 << 20
"""Of an encoded record, and of a line of JSON. What a bus takes at most."""

MAX_ROWS: Final = 100_000
MAX_FEATURES: Final = 10_000
MAX_CELLS: Final = 4_000_000
"""Rows times features: 32 MB of values."""

MAX_NAMES_BYTES: Final = 24 << 20
"""Of all names of a layout together: 100,000 rows with 80 characters of ids, names and command lines need a third."""

MAX_KEY: Final = 253
"""Characters of a host's, application's, pool's or service's name and of a scope: a DNS name fits."""

MAX_NAME: Final = 1_024
"""Characters of a row's id, a row's name, a feature, a state, a system call and a request's id."""

MAX_METRIC: Final = 2 * MAX_NAME + 1
"""Characters of a metric: a row's id, a colon and a feature."""

MAX_COMMAND: Final = 4_096
"""Characters of a command line."""

MAX_NOTE: Final = 4_096
"""Characters of a mark's or request's note."""

MAX_DIAGNOSIS_BYTES: Final = 1_000_000
"""Of a diagnosis as JSON: below the 1 MiB that Kafka's own clients take where nobody has set them otherwise."""

MAX_RESOURCES: Final = 16
"""What one row takes or lacks."""

MAX_RESOURCE: Final = 64
"""Characters of the name of a resource: a few letters."""

MAX_CASES: Final = 64
"""What one piece of feedback is about."""

MAX_HOSTS: Final = 10_000
"""Hosts that serve one application."""

MAX_STATES: Final = 10_000
"""States of a request."""

MAX_SYSCALLS: Final = 100_000
"""System calls of a request."""

MAX_SPENT: Final = 64
"""Things that a request's time was spent on; the last one stands for all others."""

MAX_SEGMENTS: Final = 100
"""Pieces of a request's critical path: beyond, the shortest are merged into their neighbours."""

MAX_THREADS: Final = 128
"""Threads that a request's critical path names."""

MAX_NOTES: Final = 64
"""Notes of a request or diagnosis."""

MAX_PID: Final = 1 << 22
"""Of a process or thread: `PID_MAX_LIMIT` of 64-bit Linux."""

MAX_TS: Final = 253_402_300_799.0
"""The last second of the year 9999: milliseconds taken for seconds lie beyond."""

MAX_SEQUENCE: Final = (1 << 63) - 1

MAX_PLAIN_BYTES: Final = 1 << 20
"""What an encoded record may have beside its byte strings. It becomes objects, up to a hundred times as large."""
