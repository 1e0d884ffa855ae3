"""A name server that knows one name, and can be late.

    python -m tests.evaluation.requests.lab.names ADDRESS NAME

It is told by lines on its standard input: `late SECONDS`, it answers nothing for so long. It ends with that input.
"""

from __future__ import annotations

import select
import socket
import sys
import time

PORT = 53
HEADER_BYTES = 12


def answer(question: bytes, known: str) -> bytes:
    """An address for the name that is known (type A), no such name for others: RFC 1035, 4.1."""
    labels, at = [], HEADER_BYTES
    while question[at]:
        labels.append(question[at + 1 : at + 1 + question[at]])
        at += 1 + question[at]
    asked = question[HEADER_BYTES : at + 5]
    found = b".".join(labels).decode() == known and question[at + 1 : at + 3] == b"\x00\x01"
    flags = b"\x81\x80" if found else b"\x81\x83"
    record = b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x00\x00\x04\x7f\x00\x00\x01" if found else b""
    counts = b"\x00\x01" + (b"\x00\x01" if found else b"\x00\x00") + b"\x00\x00\x00\x00"
    return question[:2] + flags + counts + asked + record


def main() -> None:
    """Answer until its standard input ends."""
    address, known = sys.argv[1:]
    door = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    door.bind((address, PORT))
    while True:
        ready, _, _ = select.select([door, sys.stdin], [], [])
        if sys.stdin in ready:
            line = sys.stdin.readline()
            if not line:
                return
            time.sleep(float(line.split()[1]))
            print("late", flush=True)
        elif door in ready:
            question, visitor = door.recvfrom(512)
            door.sendto(answer(question, known), visitor)


if __name__ == "__main__":
    main()
