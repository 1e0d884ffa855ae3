"""One thread burns CPU time in `grind`, called by `serve`; the others wait: for an event, for data, for some time."""

import json
import os
import socket
import sys
import threading
import time

busy = threading.Event()
rounds = 0


def grind(rounds: int) -> int:
    x = rounds | 1
    for _ in range(rounds):
        x = x * 6364136223846793005 + 1442695040888963407 & 0xFFFFFFFFFFFFFFFF
    return x


def serve() -> None:
    print(json.dumps({"tid": threading.get_native_id(), "function": "grind"}), flush=True)
    global rounds  # noqa: PLW0603 - one number
    while True:
        busy.wait()
        grind(20_000)
        rounds += 1


def wait_for_data(source: socket.socket) -> None:
    source.recv(1)


def wait_for_time() -> None:
    while True:
        time.sleep(3600)


def main() -> None:
    never = threading.Event()
    _kept, silent = socket.socketpair()
    for target, arguments in ((never.wait, ()), (wait_for_data, (silent,)), (wait_for_time, ()), (serve, ())):
        threading.Thread(target=target, args=arguments, name=target.__name__, daemon=True).start()
    for line in sys.stdin:
        if line.strip() == "count":
            print(rounds, flush=True)
        elif line.strip() == "busy":
            busy.set()
        else:
            busy.clear()
    os._exit(0)


main()
