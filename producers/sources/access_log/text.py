"""Lines of text in a server's own format, many at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from laggard.producers.sources.access_log.formats import TextFormat, duration_number
from laggard.producers.sources.access_log.requests import Gathered, Requests, lines_of, shown
from laggard.producers.sources.access_log.times import END

if TYPE_CHECKING:
    from collections.abc import Sequence

_NO_STATUS: Final = b"-"


class TextParser:
    """Parses blocks of lines of one `TextFormat`.

    A block in which every line is valid is searched by one call; any other block line by line.

    Args:
        form: the form of the lines.

    """

    def __init__(self, form: TextFormat) -> None:
        self.timed = form.duration is not None
        self.statuses = form.status is not None
        self._form = form
        self._only = form.pattern.groups == 1  # then `findall` returns no tuples

    def parse(self, block: bytes) -> Requests:
        """See `Parser`."""
        found = self._form.pattern.findall(block)
        if len(found) == block.count(b"\n"):
            try:
                return self._all([(one,) for one in found] if self._only else found)
            except ValueError:
                pass  # one of them is invalid, and `_each` finds it
        return self._each(block)

    def _all(self, matches: Sequence[tuple[bytes, ...]]) -> Requests:
        form, columns = self._form, list(zip(*matches, strict=True))
        if not columns:
            return Gathered().requests()
        ts = self._times(columns)
        duration_s = np.full(len(matches), np.nan)
        if form.duration is not None:
            read = form.duration.number
            texts = columns[form.duration.group]
            # Nearly always all of them are numbers, and float alone is the fastest.
            plain = read is duration_number and b"-" not in texts
            duration_s = np.array(list(map(float if plain else read, texts)), dtype=np.float64)
            duration_s *= form.duration.unit_s
            if (duration_s < 0).any():
                raise ValueError("expected a non-negative duration")
        if not ((ts > 0) & (ts < END)).all():
            raise ValueError("expected a time between 1970 and 9999")
        if form.begins:
            ts += np.where(np.isnan(duration_s), 0.0, duration_s)
        status = np.zeros(len(matches), dtype=np.int16)
        if form.status is not None:
            texts = columns[form.status]
            codes = {text: 0 if text == _NO_STATUS else int(text) for text in set(texts)}
            status = np.array([codes[text] for text in texts], dtype=np.int16)
        return Requests(ts, duration_s, status, 0, ())

    def _times(self, columns: Sequence[tuple[bytes, ...]]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        time = self._form.time
        if time.number is not None:
            group, unit_s = time.number
            return np.array(list(map(float, columns[group])), dtype=np.float64) * unit_s
        assert time.date is not None
        groups, reader = time.date
        # Hundreds of lines share a second.
        if len(groups) == 1:
            moments = {text: reader.seconds((text,)) for text in set(columns[groups[0]])}
            ts = np.array([moments[text] for text in columns[groups[0]]], dtype=np.float64)
        else:
            ts = np.array([reader.seconds(each) for each in zip(*(columns[g] for g in groups), strict=True)])
        if time.fraction is not None:
            group, unit_s = time.fraction
            ts += np.array(list(map(float, columns[group])), dtype=np.float64) * unit_s
        return ts

    def _each(self, block: bytes) -> Requests:
        gathered = Gathered()
        for offset, line in lines_of(block):
            match = self._form.pattern.fullmatch(line)
            if match is None:
                gathered.refuse(offset, f"expected a line of {self._form.text!r}, got {shown(line)}")
                continue
            try:
                one = self._all([match.groups()])
            except ValueError as error:
                gathered.refuse(offset, f"{error}, in {shown(line)}")
            else:
                gathered.add(float(one.ts[0]), float(one.duration_s[0]), int(one.status[0]))
        return gathered.requests()
