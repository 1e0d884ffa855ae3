"""What a member of a Python pool does with an item, and how one goes wrong: the same in processes and in threads.

An item is `KIND ROUNDS WAIT_MS`. Most are of the kind `serve`. One of another kind makes the member that takes it go
wrong, which says so on the standard output in one line of JSON.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time

HELD_BYTES = 128 << 10
"""What a leaking member does not give back, of each item."""
SLOWER_S = 0.3
"""How much longer a slow member takes for each item."""

_state = threading.local()
_output = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - for as long as the program runs


def tell(**said: object) -> None:
    """Say on the standard output which member this is, and what happened when."""
    line = json.dumps({"pid": os.getpid(), "tid": threading.get_native_id(), "ts": time.time(), **said})
    os.write(1, line.encode() + b"\n")


def work(kind: str, rounds: int, wait_ms: float) -> None:
    """Do an item: compute, wait for somebody, write what came of it; or go wrong from here on."""
    if kind in ("leak", "descriptors", "slow"):
        setattr(_state, kind, [])
    if kind != "serve":
        tell(fault=kind)
    if kind == "spin":
        spin(float("inf"))
    if kind == "stuck":
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()
    if kind == "spike":
        spin(wait_ms / 1000)
        tell(over=kind)
        return
    text = compute(rounds)
    time.sleep(wait_ms / 1000)
    if hasattr(_state, "slow"):
        time.sleep(SLOWER_S)
    if hasattr(_state, "leak"):
        _state.leak.append(bytearray(os.urandom(1 << 10)) * (HELD_BYTES >> 10))
    if hasattr(_state, "descriptors"):
        _state.descriptors.append(os.open(os.devnull, os.O_RDONLY))
    os.pwrite(_output.fileno(), text, 0)


def compute(rounds: int) -> bytes:
    """Some text, as a page or a report is made."""
    parts = []
    x = rounds | 1
    for _ in range(rounds):
        x = x * 6364136223846793005 + 1442695040888963407 & 0xFFFFFFFFFFFFFFFF
        parts.append(x.to_bytes(8, "little"))
    return b"".join(parts)


def spin(seconds: float) -> None:
    """Burn CPU time for so long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        compute(1000)
