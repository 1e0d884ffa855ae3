"""The server of `serving.c` in Python: for each byte that comes in, a thread burns CPU time in `handle`."""

import os
import socket
import socketserver
import sys
import threading


def handle(rounds: int) -> int:
    x = rounds | 1
    for _ in range(rounds):
        x = x * 6364136223846793005 + 1442695040888963407 & 0xFFFFFFFFFFFFFFFF
    return x


class Connection(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while byte := self.request.recv(1):
            handle(10_000)
            self.request.sendall(byte)


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True


def main() -> None:
    server = Server(("127.0.0.1", 0), Connection)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()
    os._exit(0)


main()
