"""The open diagnoses of an agent, in a file: the next agent closes them.

The file holds the last record of each, one on a line, and is replaced as a whole.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from laggard.pipeline.core.records import RecordError
from laggard.pipeline.core.records.diagnosis_json import read_diagnosis, write_diagnosis
from laggard.pipeline.core.trusted import read_trusted, write_trusted

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from laggard.pipeline.core.records.diagnosis import Diagnosis

_MAX_BYTES = 64 << 20

_logger = logging.getLogger(__name__)


class Unfinished:
    """The file of open diagnoses.

    Args:
        path: its path.

    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._failing = False

    def read(self) -> list[Diagnosis]:
        """Return the diagnoses in the file; unreadable ones are logged and left out."""
        try:
            lines = read_trusted(self._path, _MAX_BYTES).splitlines()
        except FileNotFoundError:
            return []
        except OSError as error:
            _logger.warning("%s; diagnoses that were open stay so", error)
            return []
        found = []
        for number, line in enumerate(lines, 1):
            try:
                found.append(read_diagnosis(line, f"{self._path}:{number}"))
            except RecordError as error:
                _logger.warning("%s; this diagnosis stays open", error)
        return found

    def write(self, diagnoses: Iterable[Diagnosis]) -> None:
        """Replace the content. A failure is logged once: without the file, a crash leaves diagnoses open."""
        lines = [write_diagnosis(each) for each in diagnoses]
        try:
            if lines:
                write_trusted(self._path, "".join(f"{line}\n" for line in lines))
            else:
                self._path.unlink(missing_ok=True)
        except OSError as error:
            if not self._failing:
                _logger.warning("%s; diagnoses that are open when the agent is killed stay so", error)
            self._failing = True
        else:
            self._failing = False
