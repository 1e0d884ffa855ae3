"""A process of the evaluation: it does its everyday work, and misbehaves for a while on command.

    python -m tests.evaluation.workload NAME ROLE SEED FOLDER DATA

It is told by lines on its standard input: `burst` begins its usual burst, `fault KIND AMOUNT SECONDS` a fault, `storm
PROGRAM PER_SECOND SECONDS` a storm of short-lived children. It ends with its standard input, and with the process that
started it. It needs only the standard library.
"""

from __future__ import annotations

import ctypes
import os
import random
import select
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.evaluation.faults import FAULTS, Storm
from tests.evaluation.roles import ROLES

if TYPE_CHECKING:
    from tests.evaluation.faults import Fault
    from tests.evaluation.roles import Role

BURST_EVERY_S = 100.0
"""Mean time between the bursts that a process has by itself."""

PR_SET_PDEATHSIG, PR_SET_NAME = 1, 15


def main() -> None:
    name, role, seed, folder, data = sys.argv[1:]
    libc = ctypes.CDLL(None, use_errno=True)
    for option, argument in ((PR_SET_NAME, name.encode()), (PR_SET_PDEATHSIG, signal.SIGKILL)):
        if libc.prctl(option, argument, 0, 0, 0):
            raise OSError(ctypes.get_errno(), f"prctl({option}) was refused")
    chance = random.Random(f"{seed}:{name}")
    own = Path(folder)
    own.mkdir()
    work(ROLES[role](own, chance), chance, Path(data))


def work(role: Role, chance: random.Random, data: Path) -> None:
    """Do what the role does, and what standard input says, until that ends."""
    fault: Fault | None = None
    fault_end = fault_due = 0.0
    role_due = time.monotonic() + chance.random()
    burst_due = time.monotonic() + chance.expovariate(1 / BURST_EVERY_S)
    while True:
        now = time.monotonic()
        if fault and now >= fault_end:
            fault.end()
            fault = None
        if fault and now >= fault_due:
            fault_due = now + fault.step()
        if now >= burst_due:
            role.burst()
            role_due, burst_due = now, now + chance.expovariate(1 / BURST_EVERY_S)
        if now >= role_due:
            role_due = now + role.step()
        due = min(role_due, burst_due, *((fault_due, fault_end) if fault else ()))
        if not select.select([sys.stdin], [], [], max(0.0, due - time.monotonic()))[0]:
            continue
        told = os.read(sys.stdin.fileno(), 4096).decode()  # not `readline`: its buffer would hide lines from select
        if not told:
            return
        for line in told.splitlines():
            match line.split():
                case ["burst"]:
                    role.burst()
                    role_due = now
                case ["fault", kind, amount, seconds]:
                    fault = FAULTS[kind](float(amount), chance, data)
                    fault_end = time.monotonic() + float(seconds)
                case ["storm", program, amount, seconds]:
                    fault = Storm(float(amount), chance, data, program)
                    fault_end = time.monotonic() + float(seconds)
                case _:
                    expected = "'burst', 'fault KIND AMOUNT SECONDS' or 'storm PROGRAM PER_SECOND SECONDS'"
                    raise ValueError(f"standard input: expected {expected}, got {line!r}")


if __name__ == "__main__":
    main()
