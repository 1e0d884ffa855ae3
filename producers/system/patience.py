"""Calls that may never return: they run in a thread that is abandoned if it hangs.

Most files of a process are read under a lock that it holds while it executes another program and closes files. If these
are on a filesystem that does not answer (NFS, FUSE), it holds that lock forever. Then every reader hangs with it, as
`ps` does. Only a fatal signal ends that.
"""

from __future__ import annotations

import queue
import threading
import time
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from laggard.producers.system.foreign import content

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Item = TypeVar("Item")
Answer = TypeVar("Answer")

PATIENCE_S: Final = 0.5
"""An answer may take up to twice this time, in seconds."""

MOST_S: Final = 10.0
"""The limit while the thread is not in uninterruptible sleep, in seconds: a machine without an idle core is slow."""


class HangingError(TimeoutError):
    """An answer did not arrive in time."""


class Patience:
    """Calls a function for many items, one after the other, in one thread. If that hangs, another thread continues.

    Args:
        patience_s: an answer may take up to twice this time, in seconds.
        most_s: the limit while the thread is not in uninterruptible sleep, in seconds.

    Attributes:
        cpu_ns: the CPU time of all batches in which no item hung, in nanoseconds.

    """

    def __init__(self, patience_s: float = PATIENCE_S, most_s: float = MOST_S) -> None:
        self.cpu_ns = 0
        self._left: set[Any] = set()  # the items whose threads were abandoned
        self._patience_s = patience_s
        self._most_s = most_s
        self._worker: _Worker | None = None
        self._late: queue.SimpleQueue[Any] = queue.SimpleQueue()

    @property
    def hanging(self) -> int:
        """The number of abandoned threads, without those of items that `late` returned."""
        return len(self._left)

    def each(self, items: Sequence[Item], ask: Callable[[Item], Answer]) -> list[Answer | Exception]:
        """Call a function for each item. An item that hangs is skipped until `late` has returned it.

        Args:
            items: the items, hashable.
            ask: the function.

        Returns:
            The answers, or the exceptions that were raised; `HangingError` for a missing answer.

        """
        if not self._left:
            return self._call_each(items, ask)
        hangs = [item in self._left for item in items]
        results = self._call_each([item for item, left in zip(items, hangs, strict=True) if not left], ask)
        answers = iter(results)
        return [HangingError("it still does not respond") if left else next(answers) for left in hangs]

    def _call_each(self, items: Sequence[Item], ask: Callable[[Item], Answer]) -> list[Answer | Exception]:
        answers: list[Answer | Exception] = []
        while len(answers) < len(items):
            if self._worker is None:
                self._worker = _Worker(self._late)
            batch = _Batch(items[len(answers) :], ask)
            self._worker.batches.put(batch)
            answers += self._answers(batch, self._worker)
            self.cpu_ns += batch.cpu_ns
        return answers

    def late(self) -> list[Any]:
        """Return the items whose answers were late and dropped, since the last call."""
        found = []
        while not self._late.empty():
            found.append(self._late.get())
        self._left.difference_update(found)
        return found

    def close(self) -> None:
        """Let the thread end."""
        if self._worker is not None:
            self._worker.batches.put(None)
            self._worker = None

    def _answers(self, batch: _Batch[Any, Any], worker: _Worker) -> list[Answer | Exception]:
        known, since = -1, time.monotonic()
        while not batch.done.wait(self._patience_s):
            if len(batch.answers) != known:
                known, since = len(batch.answers), time.monotonic()
                continue
            if worker.sleeps() or time.monotonic() - since >= self._most_s:
                with batch.lock:
                    if len(batch.answers) == known and not batch.done.is_set():
                        batch.left = True
                        self._left.add(batch.items[known])
                        self._worker = None
                        return [*batch.answers, HangingError(f"no answer within {2 * self._patience_s:g} s")]
        return batch.answers


class _Batch(Generic[Item, Answer]):
    """Items and their answers so far."""

    def __init__(self, items: Sequence[Item], ask: Callable[[Item], Answer]) -> None:
        self.items = items
        self.ask = ask
        self.answers: list[Answer | Exception] = []
        self.done = threading.Event()
        self.lock = threading.Lock()
        self.left = False
        self.cpu_ns = 0

    def run(self) -> Item | None:
        """Call the function for all items, and return the one at which the batch was abandoned, if any."""
        begun = time.thread_time_ns()
        for item in self.items:
            answer: Answer | Exception
            try:
                answer = self.ask(item)
            except Exception as error:  # noqa: BLE001 - returned to the caller
                answer = error
            with self.lock:
                if self.left:
                    return item
                self.answers.append(answer)
        self.cpu_ns = time.thread_time_ns() - begun
        self.done.set()
        return None


class _Worker:
    """A thread that runs batches. It does not prevent the program from ending."""

    def __init__(self, late: queue.SimpleQueue[Any]) -> None:
        self.batches: queue.SimpleQueue[_Batch[Any, Any] | None] = queue.SimpleQueue()
        self._late = late
        self._thread = threading.Thread(target=self._run, name="reading", daemon=True)
        self._thread.start()

    def sleeps(self) -> bool:
        """Return whether the thread is in uninterruptible sleep."""
        stat = content(f"/proc/self/task/{self._thread.native_id}/stat")
        return stat.rpartition(b")")[2][:2] == b" D"

    def _run(self) -> None:
        while (batch := self.batches.get()) is not None:
            item = batch.run()
            if batch.left:
                self._late.put(item)
                return
