"""The interface of sources of an application's performance, or of a pool's members, and its names.

A source is read once an interval. `read` touches the outside (a socket, a file) and raises nothing: failures are a part
of its result. `parse` makes frames of that and only touches the source's own memory. So the same reads in the same
order give the same frames. The time of a frame is the end of its interval; the interval begins at the frame before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import numpy as np

from laggard.pipeline.core.records import Frame, make_layout

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from laggard.pipeline.core.records.frame import KeyedBy

PERFORMANCE: Final = "performance"
"""The scope of frames with one row, named like the application, whose features are its performance."""

SOURCE: Final = "source"
"""The scope of frames about the sources themselves, a row for each, with `SOURCE_FEATURES`."""

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
"""Names of features of a performance frame, if a source has them. Other names are free."""

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
"""The features of a source itself.

`expected_places` is the number of targets or files to read in this interval, and `read_places` the number of readable
ones. `read_duration_s` is the duration of the read, and `samples` is the number of values or lines that it read. Since
the program began: `unusable_samples` is the number of these that were malformed, impossible, or beyond a bound;
`failures` counts unreadable places; `publish_failures` counts failures to publish its frames. For all sources of the
program together: `waiting_records` is the number of records that have not arrived yet, and `dropped_records` that of
lost ones.
"""


@dataclass(frozen=True, slots=True)
class Trouble:
    """An external problem.

    Attributes:
        place: its place: `http://web-1:8000/metrics`, `/var/log/nginx/access.log:17`.
        text: the problem and what was expected, one line without the place.
        lasting: whether the place itself is unusable, so that its recovery is reported, too; otherwise it concerns a
            part of the content.

    """

    place: str
    text: str
    lasting: bool = True


@dataclass(frozen=True, slots=True)
class Taken:
    """The result of one read.

    Attributes:
        frames: in the order of their times.
        troubles: at most some for each place: the others are counted, too.
        expected: the number of places to read.
        places: the number of places that were read.
        samples: the number of values or lines that were read.
        unusable: the number of these that were unusable.
        more: whether there is more to read at once.

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
    """A source of one application or pool. Used by one thread."""

    @property
    def name(self) -> str:
        """Its name in the log and in `SOURCE` frames: unique among the sources of an application or pool."""

    @property
    def keyed_by(self) -> KeyedBy:
        """The kind of its key: an application or a pool."""

    @property
    def key(self) -> str:
        """The name of the application or pool."""

    @property
    def finished(self) -> bool:
        """Whether no more data can come, as from a standard input that has ended."""

    def read(self, ts: float) -> Read:
        """Read the present data, at the end of an interval.

        Args:
            ts: the present time, in seconds since the Unix epoch; greater than at the last call.

        """

    def parse(self, read: Read) -> Taken:
        """Return the read data as frames; their sequences, if any, are the same when data is parsed twice."""

    def published(self) -> None:
        """Note that all frames so far are sure to arrive, whatever happens to this program."""

    def check(self) -> Sequence[Trouble]:
        """Check whether each place can be reached, for `laggard doctor`, without losing data."""

    def close(self) -> None:
        """Close all files and sockets."""


def performance_frame(application: str, ts: float, features: Mapping[str, float]) -> Frame:
    """Return a performance frame for the interval that ends at `ts`; NaN for unknown features.

    Its sequence is the time in milliseconds, so that a repeated frame of an interval is recognized.

    Raises:
        RecordError: a name is invalid.

    """
    layout = make_layout((application,), (application,), features)
    values = np.array([list(features.values())], np.float64)
    values.setflags(write=False)
    return Frame("application", application, PERFORMANCE, ts, int(ts * 1000), layout, values)
