"""A thread pool in Python: each line of the standard input is an item of `work.py`. Ends where the input ends.

python -m tests.evaluation.pools.lab.jobs PROCESS THREADS
"""

from __future__ import annotations

import ctypes
import itertools
import logging
import os
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue

from tests.evaluation.pools.lab.work import tell, work

PR_SET_NAME = 15

_libc = ctypes.CDLL(None)


def call(name: str) -> None:
    """Give this thread a name that the kernel knows, as Python does by itself from 3.14 on."""
    _libc.prctl(PR_SET_NAME, name.encode(), 0, 0, 0)


def leave(own: SimpleQueue[Future[None]]) -> None:
    """Finish the future of this item: the executor, which would as well, loses the thread, and believes it has it.

    The error that this gives is raised outside of what the pool guards, as any in a callback of a future would be.
    """
    tell(fault="left")
    own.get().set_result(None)


def main() -> None:
    process, threads = sys.argv[1], int(sys.argv[2])
    call(process)
    logging.disable()  # what the executor says of the thread that it loses
    numbers = itertools.count(1)
    executor = ThreadPoolExecutor(threads, initializer=lambda: call(f"worker-{next(numbers)}"))
    barrier = threading.Barrier(threads + 1)  # so that all begin at once
    for _ in range(threads):
        executor.submit(barrier.wait)
    barrier.wait()
    tell(ready=threads)
    for line in sys.stdin:
        kind, rounds, wait_ms = line.split()
        if kind == "left":
            own: SimpleQueue[Future[None]] = SimpleQueue()
            own.put(executor.submit(leave, own))
        else:
            executor.submit(work, kind, int(rounds), float(wait_ms))
    os._exit(0)


if __name__ == "__main__":
    main()
