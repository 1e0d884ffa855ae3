"""A process of a name of its own that gets in others' way when it is told.

    python -m tests.evaluation.requests.lab.troublemaker NAME lock FILE   # `SECONDS`: has its lock for so long
    python -m tests.evaluation.requests.lab.troublemaker NAME compute     # `SECONDS`: takes most of the CPU so long
    python -m tests.evaluation.requests.lab.troublemaker NAME forget FILE # `SECONDS`: keeps it out of memory so long

It answers each line with when that began and ended, seconds since the Unix epoch. It ends with its standard input.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import sys
import time

PR_SET_NAME = 15
BUSY_S, IDLE_S = 0.008, 0.002
"""What computes rests now and then: otherwise others could not even begin."""


def main() -> None:
    """Do what its standard input asks for, until that ends."""
    name, kind, *file = sys.argv[1:]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NAME, name.encode(), 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl was refused")
    descriptor = os.open(file[0], os.O_RDWR) if file else -1
    print("ready", flush=True)
    for line in sys.stdin:
        seconds = float(line)
        begin = time.time()
        if kind == "lock":
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            begin = time.time()
            time.sleep(seconds)
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        elif kind == "compute":
            while time.time() < begin + seconds:
                until = time.time() + BUSY_S
                while time.time() < until:
                    sum(range(1000))
                time.sleep(IDLE_S)
        else:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            begin = time.time()
            time.sleep(seconds)
            os.lseek(descriptor, 0, os.SEEK_SET)
            while os.read(descriptor, 1 << 20):
                pass
        print(f"{begin:.6f} {time.time():.6f}", flush=True)


if __name__ == "__main__":
    main()
