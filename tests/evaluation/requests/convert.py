"""S4's own recording as JSON lines that `laggard replay` takes, in the order in which the requests ended.

    python -m tests.evaluation.requests.convert FOLDER requests.jsonl.zst
    laggard replay requests.jsonl.zst --json --set requests.method=published --set requests.eps=25ms

The second one tells the 157 outliers of Table III. Lines go to a file that ends in .gz or .zst compressed, and to
standard output for `-`.
"""

from __future__ import annotations

import argparse
import gzip
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

import numpy as np
import zstandard

from laggard.pipeline.core.records import Request, write_line
from tests.evaluation.requests.published_data import STATES, read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.evaluation.requests.published_data import Recording

SERVICE: Final = "wordpress"


def requests(recording: Recording) -> Iterator[Request]:
    """The requests in the order in which they ended; states in which none of them ever was are left out."""
    there = [at for at in range(len(STATES)) if recording.counts[:, at].any()]
    begins = np.concatenate([[0], np.cumsum(recording.syscalls.lengths)])
    words = recording.syscalls.words
    for at in np.argsort(recording.began_ns + recording.duration_ns, kind="stable"):
        calls = recording.syscalls.codes[begins[at] : begins[at + 1]].tolist()
        yield Request(
            service=SERVICE,
            ts=int(recording.began_ns[at]) / 1e9,
            request=recording.ids[at],
            duration_s=int(recording.duration_ns[at]) / 1e9,
            counts={STATES[state]: float(recording.counts[at, state]) for state in there},
            times_s={STATES[state]: int(recording.times_ns[at, state]) / 1e9 for state in there},
            syscalls=tuple(words[code] for code in calls),
        )


@contextmanager
def _opened(path: str) -> Iterator[IO[str]]:
    if path == "-":
        yield sys.stdout
    elif path.endswith(".gz"):
        with gzip.open(path, "wt", compresslevel=6) as file:
            yield file
    elif path.endswith(".zst"):
        with zstandard.open(path, "wt") as file:
            yield file
    else:
        with Path(path).open("w") as file:
            yield file


def main() -> int:
    """Convert the files of a folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="with count.csv, times.csv, states.csv and syscalls.csv")
    parser.add_argument("file", help="where the lines go")
    given = parser.parse_args()
    recording = read(given.folder)
    with _opened(given.file) as file:
        for each in requests(recording):
            file.write(f"{write_line(each)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
