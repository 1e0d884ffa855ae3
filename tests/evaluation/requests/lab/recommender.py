"""A service that others ask over TCP, and that can be away or not answer its door.

    python -m tests.evaluation.requests.lab.recommender PORT

It is told by lines on its standard input: `away SECONDS` (nothing listens), `deaf SECONDS` (connections are not taken,
and as many as may wait do already), `late SECONDS` (it does not answer). It ends with its standard input.
"""

from __future__ import annotations

import contextlib
import select
import socket
import sys
import time

BACKLOG = 1
"""Two may wait: the kernel lets one more in than it is told."""


def listen(port: int) -> socket.socket:
    """The door."""
    door = socket.socket()
    door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    door.bind(("127.0.0.1", port))
    door.listen(128)
    return door


def answer(door: socket.socket) -> None:
    """Whoever comes first."""
    visitor, _ = door.accept()
    with visitor:
        visitor.settimeout(1.0)
        with contextlib.suppress(OSError):
            number = int(visitor.recv(64) or b"0")
            visitor.sendall(b", ".join(b"post %d" % (number * each % 997) for each in range(2, 12)))


def main() -> None:
    """Answer until its standard input ends."""
    port = int(sys.argv[1])
    door = listen(port)
    while True:
        ready, _, _ = select.select([door, sys.stdin], [], [])
        if sys.stdin in ready:
            line = sys.stdin.readline()
            if not line:
                return
            what, seconds = line.split()
            if what == "away":
                door.close()
                time.sleep(float(seconds))
                door = listen(port)
            elif what == "late":
                time.sleep(float(seconds))
            else:
                door.listen(BACKLOG)
                waiting = [socket.socket() for _ in range(BACKLOG + 1)]
                for each in waiting:
                    # Not waited for: others may wait at the door already, and it does not open.
                    each.setblocking(False)
                    with contextlib.suppress(BlockingIOError):
                        each.connect(("127.0.0.1", port))
                time.sleep(float(seconds))
                for each in waiting:
                    each.close()
                door.listen(128)
            print(what, flush=True)
        elif door in ready:
            answer(door)


if __name__ == "__main__":
    main()
