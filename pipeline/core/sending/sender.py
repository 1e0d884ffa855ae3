"""Sends the records of a spool to a bus on the network, in order, and retries without a limit."""

from __future__ import annotations

import gc
import logging
import threading
import time
from typing import TYPE_CHECKING, Final

from laggard.pipeline.core.backoff import Backoff
from laggard.pipeline.core.bus import BusError, BusUnavailable, Refused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.pipeline.core.bus import Bus, Outgoing
    from laggard.pipeline.core.sending.outbox import Published
    from laggard.pipeline.core.sending.spool import Spool

CLOSING_S: Final = 5.0
"""The time in which a clean stop tries to send the waiting records, in seconds."""

CLOSING_IN_TROUBLE_S: Final = 0.5
"""The same if the bus has just failed: the spool holds the records, and the stop of the agent should be quick."""

LOG_AGAIN_S: Final = 600.0
"""The least time between two warnings about refused records, in seconds."""

TIDY_S: Final = 60.0

_CHECK_S: Final = 1.0
_CLOSING_STEP_S: Final = 0.2

_logger = logging.getLogger(__name__)


class Sender:
    """Reads records from a spool, in a thread of its own, and appends them to a bus.

    Records never overtake each other. If the bus is unavailable or refuses everything (a missing topic, a missing
    right), the batch is retried, and one warning is logged. A record that the bus refuses for itself, for example for
    its size, is counted, logged and skipped.

    Args:
        spool: the source of the records.
        bus: their target.

    Attributes:
        refused: the number of records that the bus refused for themselves.

    """

    def __init__(self, spool: Spool, bus: Bus) -> None:
        self.refused = 0
        self._spool = spool
        self._bus = bus
        self._stop = threading.Event()
        self._drain_until = 0.0
        self._trouble = ""
        self._backoff = Backoff()
        self._said_refused = -LOG_AGAIN_S
        self._tidied = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="sender", daemon=True)
        self._thread.start()

    def publish(self, records: Sequence[Published]) -> None:
        """Queue the records of a tick for the bus; see `Spool.publish`."""
        self._spool.publish(records)

    @property
    def waiting(self) -> int:
        """The number of waiting records."""
        return self._spool.waiting

    @property
    def dropped(self) -> int:
        """The number of lost records: dropped by the spool, or refused by the bus."""
        return self._spool.dropped + self.refused

    def close(self, timeout_s: float = CLOSING_S) -> None:
        """Send waiting records for at most this time, and log how many stay in the spool for the next start."""
        if self._trouble:
            timeout_s = min(timeout_s, CLOSING_IN_TROUBLE_S)
        self._drain_until = time.monotonic() + timeout_s
        self._stop.set()
        self._spool.news.set()
        self._thread.join(timeout_s)
        if left := self._spool.close():
            _logger.warning("%d records wait in %s; they are sent after the next start", left, self._spool.path)

    def _run(self) -> None:
        going_on = True
        while going_on:
            try:
                going_on = self._bring()
            except Exception as error:  # noqa: BLE001 - see below
                # Without this thread nothing would be sent any more, without a warning.
                going_on = self._failed(error)

    def _bring(self) -> bool:
        """Send a batch, or wait for records; return False when it is time to stop."""
        self._spool.news.clear()
        batch = self._spool.take()
        if batch:
            if not self._send(batch):
                return False
            self._spool.sent()
        elif self._stop.is_set():
            return False
        else:
            self._spool.news.wait(_CHECK_S)
        return True

    def _failed(self, error: Exception) -> bool:
        """Log an unexpected error, and wait; return False when it is time to stop."""
        _logger.debug("sending failed", exc_info=error)
        reason = f"{type(error).__name__}: {error}"
        self._log("failed", f"sending failed with {reason}; what is published waits in {self._spool.path}")
        return self._wait()

    def _send(self, batch: list[Outgoing]) -> bool:
        """Append a batch, with retries; return False when it is time to stop before that."""
        count = len(batch)
        while True:
            try:
                self._append(batch)
            except BusUnavailable as error:
                self._log("unavailable", f"{error}; what is published waits in {self._spool.path} until then")
                going_on = self._wait()
            except BusError as error:
                self._log("refused", f"{error}; what is published waits in {self._spool.path}")
                going_on = self._wait()
            except Exception as error:  # noqa: BLE001 - a bug of the client must not end the thread
                going_on = self._failed(error)
            else:
                self._backoff.went_well()
                if self._trouble:
                    self._trouble = ""
                    _logger.warning("the bus takes records again; %d more wait", self._spool.waiting - count)
                return True
            self._tidy()
            if not going_on:
                return False

    def _tidy(self) -> None:
        """Close the sockets of failed connections: the agent may need every descriptor.

        kafka-python leaves refused sockets to the garbage collector, which may not run for hours.
        """
        if time.monotonic() - self._tidied >= TIDY_S:
            self._tidied = time.monotonic()
            gc.collect()

    def _append(self, batch: list[Outgoing]) -> None:
        """Append a batch; if the bus refuses it, record by record, so that finished ones leave the batch."""
        try:
            self._bus.append(batch)
        except Refused as error:
            if len(batch) > 1:
                while batch:
                    self._append(batch[:1])
                    del batch[0]
                return
            self.refused += 1
            if time.monotonic() - self._said_refused >= LOG_AGAIN_S:
                self._said_refused = time.monotonic()
                _logger.warning("%s; it is skipped (%d so far)", error, self.refused)

    def _log(self, trouble: str, line: str) -> None:
        """Log a problem once, and again when it changes."""
        if trouble != self._trouble:
            _logger.warning("%s", line)
        self._trouble = trouble

    def _wait(self) -> bool:
        """Wait before the next try; return False when it is time to stop."""
        self._backoff.failed(time.monotonic())
        if not self._stop.wait(self._backoff.pause_s):
            return True
        left = self._drain_until - time.monotonic()
        if left <= 0 or self._trouble == "refused":
            return False
        time.sleep(min(_CLOSING_STEP_S, left))
        # `close` waits until then, and relies on nothing being sent later.
        return time.monotonic() < self._drain_until
