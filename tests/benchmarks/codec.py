"""What records cost to write and read: `python tests/benchmarks/codec.py`. Take the ratios; the machine is shared.

Frames are 200 rows x 30 features with their names (row ids, names, features, command lines). All forms are timed in
turns in one run, and the fastest of many turns counts. `raw` is without any check: what can be had at all.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import TYPE_CHECKING, Any

import msgpack
import numpy as np

from laggard.pipeline.core.records import Decoder, Frame, encode, make_layout, read_line, write_line

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS, FEATURES = 200, 30
TURNS = 40
TURN_S = 0.01


def a_frame(first_pid: int = 900) -> Frame:
    layout = make_layout(
        [f"worker-{row % 40}[{row * 37 + first_pid}@{row * 1733}]" for row in range(ROWS)],
        [f"worker-{row % 40}" for row in range(ROWS)],
        [f"feature_{feature}_bytes_per_s" for feature in range(FEATURES)],
        [f"/usr/lib/worker/bin/worker --port={row * 7919 % 60000}" for row in range(ROWS)],
    )
    values = np.random.default_rng(0).integers(0, 1 << 20, (ROWS, FEATURES)) / 0.997
    return Frame("host", "web-1", "process", 1.7e9, 1, layout, values)


def fastest(works: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Seconds of one call each, timed in turns so that all see the same machine."""
    best = dict.fromkeys(works, float("inf"))
    for _ in range(TURNS):
        for name, work in works.items():
            calls, begin = 0, time.perf_counter()
            while (spent := time.perf_counter() - begin) < TURN_S:
                work()
                calls += 1
            best[name] = min(best[name], spent / calls)
    return best


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    frame = a_frame()
    encoded, line = encode(frame), write_line(frame)
    others = [encode(a_frame(pid)) for pid in range(10)]
    decoder = Decoder()

    def decode_new_names() -> None:
        fresh = Decoder()
        for other in others:
            fresh.decode(other, "")

    reading = fastest(
        {
            "MessagePack, names as before": lambda: decoder.decode(encoded, ""),
            "  raw MessagePack": lambda: msgpack.unpackb(encoded),
            "MessagePack, ten with new names": decode_new_names,
            "JSON line": lambda: read_line(line, ""),
            "  raw JSON": lambda: json.loads(line),
        }
    )
    writing = fastest(
        {
            "MessagePack": lambda: encode(frame),
            "JSON line": lambda: write_line(frame),
            "a layout": lambda: make_layout(
                frame.layout.rows, frame.layout.names, frame.layout.features, frame.layout.commands
            ),
        }
    )
    print(f"{ROWS} rows x {FEATURES} features: {len(encoded):,} bytes, {len(frame.layout.packed):,} of them names;")
    print(f"as a line of JSON {len(line):,} bytes")
    for title, seconds in (("read", reading), ("write", writing)):
        unit = next(iter(seconds.values()))
        for name, each in seconds.items():
            print(f"{title:6}{name:34}{each * 1e6:10.1f} us{each / unit:10.1f}")


if __name__ == "__main__":
    main()
