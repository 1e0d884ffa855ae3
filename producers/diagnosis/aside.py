"""What may not come back: asked in a thread of its own, with little patience.

The list of a process's mappings waits for the lock of its memory, which a process that thrashes or hangs on a disk may
hold for minutes; and so may opening a file of a broken file system. Who watches a sick process must not catch it.
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
"""So long an answer is waited for."""


class Aside:
    """One thread for such questions, begun with the first; it answers them in their order.

    While a question hangs, the next ones are not asked. The thread does not keep the program from ending.

    Attributes:
        cpu_s: CPU time that the answers took, in seconds, that of helpers for them, too.

    """

    def __init__(self) -> None:
        self.cpu_s = 0.0
        self._questions: queue.SimpleQueue[tuple[Callable[[], object], queue.SimpleQueue[object]] | None] = (
            queue.SimpleQueue()
        )
        self._hanging: queue.SimpleQueue[object] | None = None
        self._begun = False

    def ask(self, question: Callable[[], Answer], patience_s: float = PATIENCE_S) -> Answer:
        """The answer, or the exception that it raised. So long an answer is waited for, in seconds.

        Raises:
            TimeoutError: it did not come in time, or an earlier one has not come yet.

        """
        if self._hanging is not None and self._hanging.empty():
            raise TimeoutError("an earlier question is not answered yet")
        self._hanging = answers = self._put(question)
        try:
            answer = answers.get(timeout=patience_s)
        except queue.Empty:
            raise TimeoutError(f"no answer within {patience_s:g} s") from None
        self._hanging = None
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[return-value] # the one to this question

    def tell(self, task: Callable[[], object]) -> None:
        """Have something done behind what hangs, and wait for nothing."""
        self._put(task)

    def close(self) -> None:
        """Let the thread end, as soon as nothing hangs."""
        self._questions.put(None)

    def _put(self, question: Callable[[], object]) -> queue.SimpleQueue[object]:
        if not self._begun:
            threading.Thread(target=self._answer, name="diagnosis-aside", daemon=True).start()
            self._begun = True
        answers: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._questions.put((question, answers))
        return answers

    def _answer(self) -> None:
        while (asked := self._questions.get()) is not None:
            question, answers = asked
            begun = thread_time()
            answer: object
            try:
                answer = question()
            except Exception as error:  # noqa: BLE001 - raised where it was asked
                answer = error
            self.cpu_s += thread_time() - begun
            answers.put(answer)
