"""Calls that may never return: they run in a thread of their own, with a short timeout.

Listing the mappings of a process waits for the lock of its memory. A process may hold that for minutes while it
thrashes or hangs on a disk. Opening a file of a broken filesystem may hang, too. The observer must not hang with it.
"""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, TypeVar

from laggard.producers.diagnosis.helper import thread_time

if TYPE_CHECKING:
    from collections.abc import Callable

Answer = TypeVar("Answer")

PATIENCE_S = 0.5
"""The timeout of an answer, in seconds."""


class Aside:
    """One thread for such questions, started with the first one; it answers them in order.

    While a question hangs, the next ones are not asked. The thread does not prevent the program from ending.

    Attributes:
        cpu_s: the CPU time of the answers, in seconds, including that of helpers.

    """

    def __init__(self) -> None:
        self.cpu_s = 0.0
        self._questions: queue.SimpleQueue[tuple[Callable[[], object], queue.SimpleQueue[object]] | None] = (
            queue.SimpleQueue()
        )
        self._hanging: queue.SimpleQueue[object] | None = None
        self._begun = False

    def ask(self, question: Callable[[], Answer], patience_s: float = PATIENCE_S) -> Answer:
        """Return the answer, or raise its exception, within a timeout of `patience_s` seconds.

        Raises:
            TimeoutError: it did not arrive in time, or an earlier one is still missing.

        """
        if self._hanging is not None and self._hanging.empty():
            raise TimeoutError("an earlier call still hangs")
        self._hanging = answers = self._put(question)
        try:
            answer = answers.get(timeout=patience_s)
        except queue.Empty:
            raise TimeoutError(f"no answer within {patience_s:g} s") from None
        self._hanging = None
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[return-value] # the one to this question

    def submit(self, task: Callable[[], object]) -> None:
        """Queue a task, behind any call that hangs, and do not wait for it."""
        self._put(task)

    def close(self) -> None:
        """Let the thread end as soon as nothing hangs."""
        self._questions.put(None)

    def _put(self, question: Callable[[], object]) -> queue.SimpleQueue[object]:
        if not self._begun:
            threading.Thread(target=self._answer, name="diagnosis-aside", daemon=True).start()
            self._begun = True
        answers: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._questions.put((question, answers))
        return answers

    def _answer(self) -> None:
        while (item := self._questions.get()) is not None:
            question, answers = item
            begun = thread_time()
            answer: object
            try:
                answer = question()
            except Exception as error:  # noqa: BLE001 - raised by `ask`
                answer = error
            self.cpu_s += thread_time() - begun
            answers.put(answer)
