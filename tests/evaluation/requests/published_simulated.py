"""Requests like those of S4's recording, drawn at random with known troubles, in files of the same form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

BEGAN_NS: Final = 1_558_061_203_000_000_000
WORKERS: Final = 8

NORMAL: Final = ("fcntl", "open", "newfstat", "read", "read", "close", "connect", "sendto", "poll", "recvfrom", "write")

# Mean times in ms and counts of the states 1, 2, 4, 5 and 6: system call, user mode, CPU, kernel, another process.
STATES: Final = (1, 2, 4, 5, 6)
TIMES_MS: Final = (1.2, 18.0, 72.0, 0.7, 30.0)
COUNTS: Final = (200, 205, 40, 1, 20)


def write(
    folder: Path, *, normal: int = 2000, locked: int = 6, refused: int = 25, robbed: int = 60, seed: int = 1
) -> dict[str, str]:
    """The four files, with requests in a random order.

    `locked` ones repeat `fcntl` in wait of a lock, `refused` ones `connect`; of `robbed` ones the CPU is taken, without
    them doing anything else. Two more are errors of measurement.

    Returns:
        The trouble of each request that has one, by its id.

    """
    chance = np.random.default_rng(seed)
    kinds = [""] * normal + ["locked"] * locked + ["refused"] * refused + ["robbed"] * robbed + ["error"] * 2
    files: dict[str, list[str]] = {name: [] for name in ("count", "times", "states", "syscalls")}
    wrong = {}
    began = np.full(WORKERS, BEGAN_NS)
    for at, kind in enumerate(kinds[each] for each in chance.permutation(len(kinds))):
        worker = at % WORKERS
        times = np.array(TIMES_MS) * chance.lognormal(0.0, 0.08, len(STATES))
        counts = chance.poisson(COUNTS)
        calls = ["getsockname", *NORMAL * int(chance.integers(8, 12)), "write", "close"]
        match kind:
            case "locked":
                times[4] += chance.uniform(300.0, 500.0)
                counts += (2200, 2400, 380, 35, 180)
                calls[10:10] = ["fcntl"] * int(chance.integers(300, 400))
            case "refused":
                times[4] += chance.uniform(15_000.0, 16_000.0)
                counts += (20, 320, 330, 70, 230)
                calls[10:10] = ["connect"] * 4
            case "robbed":
                times[2] += chance.uniform(250.0, 450.0)
            case "error":
                times, counts, calls = times / 100.0, np.minimum(counts, 2), calls[:5]
        times_ns, every_count = np.zeros(10, np.int64), np.zeros(10, np.int64)
        times_ns[list(STATES)], every_count[list(STATES)] = (times * 1e6).astype(np.int64), counts
        name = f"{15400 + worker}_12_{began[worker]}"
        began[worker] += times_ns.sum() + 1_000_000
        if kind:
            wrong[name] = kind
        digits = chance.permutation(np.repeat(np.arange(10), every_count))
        files["count"].append(",".join(map(str, [name, *every_count, times_ns.sum()])))
        files["times"].append(",".join(map(str, [name, *times_ns, times_ns.sum()])))
        files["states"].append(f"{name}:{''.join(map(str, digits))}$")
        files["syscalls"].append(f"{name}:{','.join(calls)},$")
    for file, lines in files.items():
        (folder / f"{file}.csv").write_text("".join(f"{line}\n" for line in lines))
    return wrong
