"""A log that a test writes, and what a tailer makes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from laggard.producers.access_log.formats import text_format
from laggard.producers.access_log.source import AccessLog
from laggard.producers.access_log.text import TextParser
from laggard.producers.performance import THROUGHPUT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from laggard.producers.performance import Trouble

INTERVAL_S = 10.0
GRACE_S = 2.0
BEGIN = 1_000_003.0
FORMAT = "$msec $status $request_time $request_id"


class Log:
    """A folder of logs, and the source that follows some of them.

    Attributes:
        path: of the log.
        now: the time, of lines and of looks.
        told: how many requests each interval had, by its end, of all frames that were published; the first frame of an
            interval counts, as it does for whoever reads them.
        troubles: all that were told.
        unusable: how many lines could not be used.
        written: how many requests ended in each interval, by its end.
        interval_s: the length of one.

    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "access.log"
        self.state = folder / "state" / "shop.json"
        self.now = BEGIN
        self.told: dict[float, float] = {}
        self.troubles: list[Trouble] = []
        self.unusable = 0
        self.written: dict[float, int] = {}
        self.interval_s = INTERVAL_S
        self._numbered = 0
        self.source = self.begun()

    def begun(self, *paths: Path | str) -> AccessLog:
        """The source, as a program makes it when it begins."""
        names = [str(each) for each in paths or (self.path,)]
        parser = TextParser(text_format(FORMAT))
        self.source = AccessLog("log", "shop", names, parser, self.state, interval_s=self.interval_s, grace_s=GRACE_S)
        return self.source

    def killed(self, *paths: Path | str) -> AccessLog:
        """The program was killed, and begins again."""
        self.source.close()
        return self.begun(*paths)

    def lines(self, count: int) -> bytes:
        """That many requests that end now."""
        end = (round(self.now, 3) // self.interval_s + 1) * self.interval_s
        self.written[end] = self.written.get(end, 0) + count
        self._numbered += count
        return b"".join(b"%.3f 200 0.010 %d\n" % (self.now, self._numbered - n) for n in range(count))

    def write(self, count: int = 1, path: Path | None = None) -> None:
        """Requests that end now, at the end of the log."""
        with (path or self.path).open("ab") as file:
            file.write(self.lines(count))

    def look(self, after_s: float = 0.0, *, published: bool = True) -> None:
        """The source looks at its files, some time later. What it gives is published, and known to be so, or not."""
        self.now += after_s
        while True:
            taken = self.source.parse(self.source.read(self.now))
            self.troubles += taken.troubles
            self.unusable += taken.unusable
            for frame in taken.frames:
                names = list(frame.layout.features)
                count = round(float(frame.values[0][names.index(THROUGHPUT)]) * self.interval_s)
                if published:
                    self.told.setdefault(frame.ts, count)
            if published:
                self.source.published()
            if not taken.more:
                return

    def settle(self) -> None:
        """All intervals that have a line are over, and told."""
        self.look(2 * self.interval_s + GRACE_S)
        self.look(self.interval_s)

    def each_counts_once(self) -> None:
        """All that was written is told, once."""
        self.settle()
        assert self.counted() == self.written

    def counted(self) -> dict[float, float]:
        """How many requests were told, of each interval that had some."""
        return {ts: count for ts, count in self.told.items() if count}


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    """A log that nobody has looked at yet."""
    made = Log(tmp_path)
    yield made
    made.source.close()
