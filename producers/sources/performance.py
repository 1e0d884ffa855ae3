"""What a source of an application's performance, or of a pool's members, is, and the words that it uses.

A source is asked once an interval: `read` touches the outside (a socket, a file) and raises nothing, for what failed is
a part of what it gives; `parse` makes frames of that and touches nothing but the source's own memory, so that the same
reads in the same order give the same frames. The time of a frame is the end of its interval; the interval begins at the
frame before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import numpy as np

from laggard.pipeline.records import Frame, make_layout

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from laggard.pipeline.records.frame import KeyedBy

PERFORMANCE: Final = "performance"
"""The scope of frames with one row, called like the application, whose features are its performance."""

SOURCE: Final = "source"
"""The scope of frames in which sources tell of themselves, a row for each, with `SOURCE_FEATURES`."""

THROUGHPUT: Final = "throughput_per_s"
ERRORS: Final = "errors_per_s"
MEAN: Final = "response_time_mean_s"
STANDARD_DEVIATION: Final = "response_time_standard_deviation_s"
QUANTILES: Final[Mapping[str, float]] = {
    "response_time_p50_s": 0.5,
    "response_time_p75_s": 0.75,
    "response_time_p90_s": 0.9,
    "response_time_p95_s": 0.95,
    "response_time_p99_s": 0.99,
}
"""Features of a performance frame, by these names where a source can tell them. Others are free."""

SOURCE_FEATURES: Final = (
    "expected_places",
    "read_places",
    "read_duration_s",
    "samples",
    "unusable_samples",
    "failures",
    "publish_failures",
    "waiting_records",
    "dropped_records",
)
"""What a source says of itself.

`expected_places` how many targets or files it was to read in this interval, and `read_places` how many it could;
`read_duration_s` how long that took; `samples` how many values or lines it read. Since the program began:
`unusable_samples` how many of these could not be used, for they were no text of the form expected, not possible, or
beyond a bound; `failures` how often a place could not be read; `publish_failures` how often its frames could not be
published. `waiting_records` and `dropped_records`, of all sources of the program together, how many records have not
arrived yet, and how many were lost.
"""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something of the outside that is not as it should be.

    Attributes:
        place: what it is about: `http://web-1:8000/metrics`, `/var/log/nginx/access.log:17`.
        told: what is wrong and what was expected, one line without the place.
        lasting: whether the place itself cannot be used, so that it is worth a word when that is over; else it is about
            a part of what was read.

    """

    place: str
    told: str
    lasting: bool = True


@dataclass(frozen=True, slots=True)
class Taken:
    """What came of one read.

    Attributes:
        frames: in the order of their times.
        troubles: at most some for each place: what is left unsaid is counted all the same.
        expected: how many places were to be read.
        places: how many of them were.
        samples: values or lines that were read.
        unusable: how many of these were not used because something was wrong with them.
        more: whether there is more to be read at once.

    """

    frames: Sequence[Frame] = ()
    troubles: Sequence[Trouble] = ()
    expected: int = 1
    places: int = 1
    samples: int = 0
    unusable: int = 0
    more: bool = False


Read = TypeVar("Read")


class Source(Protocol[Read]):
    """What tells of one application or pool. Used by one thread."""

    @property
    def name(self) -> str:
        """What it is called in the log and in `SOURCE` frames: unique among the sources of an application or pool."""

    @property
    def keyed_by(self) -> KeyedBy:
        """What it tells of: an application or a pool."""

    @property
    def key(self) -> str:
        """Which one."""

    @property
    def finished(self) -> bool:
        """Whether nothing can ever come any more, as of a standard input that has ended."""

    def read(self, ts: float) -> Read:
        """Read what there is now, at the end of an interval.

        Args:
            ts: now, in seconds since the Unix epoch; greater than at the last call.

        """

    def parse(self, read: Read) -> Taken:
        """What was read, as frames; their sequences, if any, are such that what is parsed twice has the same ones."""

    def published(self) -> None:
        """All frames that were given so far will arrive, whatever happens to this program."""

    def check(self) -> Sequence[Trouble]:
        """Look whether each place can be reached, for `laggard doctor`; nothing that is read by it is lost."""

    def close(self) -> None:
        """Close all files and sockets."""


def performance_frame(application: str, ts: float, features: Mapping[str, float]) -> Frame:
    """A performance frame for the interval that ends at `ts`; NaN for what is not known in it.

    Its sequence is the time in milliseconds, so that the frame of an interval that is told again is known again.

    Raises:
        RecordError: a name is none.

    """
    layout = make_layout((application,), (application,), features)
    values = np.array([list(features.values())], np.float64)
    values.setflags(write=False)
    return Frame("application", application, PERFORMANCE, ts, int(ts * 1000), layout, values)
