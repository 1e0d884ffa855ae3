"""A noisy neighbor: a process on a host of the shop that has nothing to do with the shop.

    python -m tests.evaluation.lab.neighbour NAME KIND ARGUMENT SEED

KIND is `cpu` (ARGUMENT: cores of its host), `memory` (bytes) or `disk` (a file that it reads at random places). It is
told by lines on its standard input how much of that it takes: `0.4`; 0 is nothing. It ends with its standard input.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import random
import sys
import threading
import time
import traceback
from typing import Final

PR_SET_NAME: Final = 15
STEP_S: Final = 0.02
THREADS: Final = 4
BLOCK: Final = 32 << 10
PAGE: Final = mmap.PAGESIZE


class Neighbour:
    """Takes a share of something. `share` may change at any time."""

    def __init__(self, argument: str, chance: random.Random) -> None:
        self.share = 0.0
        self._chance = chance
        self._argument = argument
        for _ in range(self.threads):
            threading.Thread(target=self._work_or_end, daemon=True).start()

    threads = THREADS

    def _work_or_end(self) -> None:
        try:
            self._work()
        except Exception:  # noqa: BLE001 - whatever it was
            traceback.print_exc()
            os._exit(1)  # one that took less than it is told would go unnoticed

    def _work(self) -> None:
        raise NotImplementedError


class Cpu(Neighbour):
    """Computes for a share of its host's cores."""

    threads = 1

    def _work(self) -> None:
        cores = float(self._argument)
        due = time.monotonic()
        while True:
            end = time.thread_time() + STEP_S * cores * self.share
            while time.thread_time() < end:
                sum(range(300))
            now = time.monotonic()
            due = max(due + STEP_S, now)  # what it did not get is not made up for
            time.sleep(due - now + STEP_S * 0.1 * self._chance.random())


class Memory(Neighbour):
    """Holds memory, each thread its part, and touches it at random places so that it stays in use."""

    def _work(self) -> None:
        most = int(self._argument) // THREADS // PAGE
        pages: list[mmap.mmap] = []
        while True:
            wanted = int(most * self.share) * PAGE
            if sum(map(len, pages)) > wanted:
                while pages and sum(map(len, pages)) > wanted:
                    pages.pop().close()
            elif sum(map(len, pages)) < wanted:
                size = min(wanted - sum(map(len, pages)), 4 << 20)
                taken = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
                for at in range(0, size, PAGE):
                    taken[at] = 1
                pages.append(taken)
            for _ in range(100 if pages else 0):
                block = pages[self._chance.randrange(len(pages))]
                block[self._chance.randrange(len(block) // PAGE) * PAGE] ^= 1
            time.sleep(STEP_S)


class Disk(Neighbour):
    """Reads at random places of a file, past the page cache, each thread without a pause for a share of the time."""

    def _work(self) -> None:
        file = os.open(self._argument, os.O_RDONLY | os.O_DIRECT)
        blocks = os.fstat(file).st_size // BLOCK
        buffer = mmap.mmap(-1, BLOCK)
        while True:
            begin = time.monotonic()
            while time.monotonic() < begin + 5 * STEP_S * self.share:
                os.preadv(file, [buffer], self._chance.randrange(blocks) * BLOCK)
            time.sleep(max(0.0, begin + 5 * STEP_S - time.monotonic()) + 0.001)


KINDS: Final = {"cpu": Cpu, "memory": Memory, "disk": Disk}


def main() -> None:
    name, kind, argument, seed = sys.argv[1:]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NAME, name.encode(), 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl was refused")
    neighbour = KINDS[kind](argument, random.Random(seed))
    for line in sys.stdin:
        neighbour.share = float(line)


if __name__ == "__main__":
    main()
