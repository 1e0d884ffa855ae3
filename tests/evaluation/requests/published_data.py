"""S4's own recording: 45,413 requests to WordPress, read from the four files of features that its authors published.

The files are from the folder `data/` of https://github.com/qfournier/request_analysis (MIT license). There each kind of
file is in 36 parts, one for each worker of the web server. Join them without headers, in ascending order of the
worker's pid. Line k of all four files is the same request:

    count.csv     ID,C0,...,C9,DURATION   how often each of the ten states was entered
    times.csv     ID,T0,...,T9,DURATION   nanoseconds in each state; they sum to the duration
    states.csv    ID:2121...$             the states, a digit each
    syscalls.csv  ID:open,read,close,$    the system calls

ID is `<worker's pid>_12_<beginning, nanoseconds since the Unix epoch>`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from laggard.operators.requests.representations import Coded, coded

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

FILES: Final = ("count.csv", "times.csv", "states.csv", "syscalls.csv")

STATES: Final = ("UN", "RS", "RU", "BD", "BP", "BK", "BT", "BF", "BC", "TRASH")
"""The ten columns, as upstream's header names them. The first three are unknown, system call and user mode. Then
blocked: for I/O, for the CPU, by the kernel, for a process, for a futex, and for the CPU by a futex. The last one is
none of these."""

ERRORS: Final = 2
"""The shortest requests, which the authors took for errors of measurement: of 0.14 and 4.2 ms."""


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """Requests, without those that are errors, shape (requests, ...).

    Attributes:
        ids: of the requests.
        began_ns: since the Unix epoch.
        duration_ns: how long each took.
        times_ns: in each state, shape (requests, 10).
        counts: how often each state was entered, shape (requests, 10).
        states: the states, in order, as digits.
        syscalls: the system calls, in order.

    """

    ids: tuple[str, ...]
    began_ns: NDArray[np.int64]
    duration_ns: NDArray[np.int64]
    times_ns: NDArray[np.int64]
    counts: NDArray[np.float64]
    states: Coded
    syscalls: Coded

    @property
    def times_ms(self) -> NDArray[np.float64]:
        """In each state, shape (requests, 10)."""
        return self.times_ns / 1e6

    @property
    def duration_ms(self) -> NDArray[np.float64]:
        """The duration of each request."""
        return self.duration_ns / 1e6


class Table(NamedTuple):
    """`count.csv` or `times.csv`."""

    ids: list[str]
    values: NDArray[np.int64]
    duration_ns: NDArray[np.int64]


def read(folder: Path, *, errors: int = ERRORS) -> Recording:
    """All requests but the shortest ones.

    As in the authors' program, the first state and the first system call of each sequence are left out: all their
    figures are without. The counts of the states are as they are.

    Parameters:
        folder: with the four files.
        errors: requests that are left out, the shortest.

    Raises:
        FileNotFoundError: one of the files is not there.
        ValueError: a line is not as expected, or the files are not of the same requests.

    """
    missing = [name for name in FILES if not (folder / name).is_file()]
    if missing:
        raise FileNotFoundError(f"{folder}: expected {', '.join(missing)}: see {__name__}")
    counts, times = read_table(folder / "count.csv"), read_table(folder / "times.csv")
    same(times.ids, counts.ids, folder / "times.csv")
    wrong = np.flatnonzero(times.values.sum(axis=1) != times.duration_ns)
    if len(wrong):
        raise ValueError(f"{folder / 'times.csv'}:{wrong[0] + 1}: expected times that sum to the duration")
    kept = np.sort(np.argsort(times.duration_ns, kind="stable")[errors:])
    ids = tuple(times.ids[each] for each in kept)
    return Recording(
        ids=ids,
        began_ns=np.array([int(each.rpartition("_")[2]) for each in ids], np.int64),
        duration_ns=times.duration_ns[kept],
        times_ns=times.values[kept],
        counts=counts.values[kept].astype(np.float64),
        states=read_sequences(folder / "states.csv", counts.ids, set(kept.tolist())),
        syscalls=read_sequences(folder / "syscalls.csv", counts.ids, set(kept.tolist())),
    )


def read_table(path: Path) -> Table:
    """`count.csv` or `times.csv`.

    Raises:
        ValueError: a line has not twelve fields, or not eleven integers.

    """
    ids, rows = [], []
    with path.open() as lines:
        for number, line in enumerate(lines, 1):
            name, *fields = line.split(",")
            try:
                values = [int(each) for each in fields]
            except ValueError:
                values = []
            if len(values) != len(STATES) + 1:
                raise ValueError(f"{path}:{number}: expected an id and {len(STATES) + 1} integers, got {line[:80]!r}")
            ids.append(name)
            rows.append(values)
    table = np.array(rows, np.int64).reshape(len(rows), len(STATES) + 1)
    return Table(ids, table[:, :-1], table[:, -1])


def read_sequences(path: Path, ids: list[str], kept: set[int]) -> Coded:
    """`states.csv` or `syscalls.csv`, without the first of each sequence.

    Raises:
        ValueError: a line is not as expected, or of another request.

    """
    seen: list[str] = []

    def sequences() -> Iterator[list[str] | str]:
        with path.open() as lines:
            for number, line in enumerate(lines, 1):
                name, found, sequence = line.rstrip("\n").partition(":")
                if not found or not sequence.endswith("$"):
                    raise ValueError(f"{path}:{number}: expected `id:sequence$`, got {line[:80]!r}")
                seen.append(name)
                if number - 1 in kept:
                    yield sequence[1:-1] if path.stem == "states" else sequence.split(",")[1:-1]

    found = coded(sequences())
    same(seen, ids, path)
    return found


def same(ids: list[str], expected: list[str], path: Path) -> None:
    """Raise `ValueError` where a file is not of the same requests as `count.csv`."""
    for number, (one, other) in enumerate(zip(ids, expected, strict=False), 1):
        if one != other:
            raise ValueError(f"{path}:{number}: expected request {other}, as in count.csv, got {one}")
    if len(ids) != len(expected):
        raise ValueError(f"{path}: expected {len(expected)} requests, as in count.csv, got {len(ids)}")
