"""Visitors of the shop: each asks for a page, reads it for a while, and asks for the next one (a closed loop).

    python -m tests.evaluation.lab.visitors ADDRESS PORT SEED PRODUCTS

Lines on its standard input set the number of visitors: `40`. Each answer is a line of its standard output. It has the
time when the answer was complete (seconds since the Unix epoch), its duration in seconds, and the status, 0 without
one. The program ends with its standard input.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from contextlib import suppress
from typing import Final

THINK_S: Final = 1.0
"""Mean of the exponential time in which a visitor reads."""
TIMEOUT_S: Final = 30.0
KINDS: Final = {"product": 0.6, "category": 0.25, "person": 0.15}
"""Shares of pages."""


class Visitor:
    """One of them, with a connection of its own that is kept."""

    def __init__(self, address: str, port: int, products: int, chance: random.Random) -> None:
        self._address, self._port, self._products = address, port, products
        self._chance = chance
        self._stream: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def visit(self) -> None:
        """Come, and go on until canceled."""
        try:
            await asyncio.sleep(self._chance.uniform(0, THINK_S))
            while True:
                begin = time.perf_counter()
                try:
                    status = await asyncio.wait_for(self._get(self._path()), TIMEOUT_S)
                except (OSError, EOFError, TimeoutError, ValueError):
                    self._leave()
                    status = 0
                print(f"{time.time():.6f} {time.perf_counter() - begin:.6f} {status}", flush=True)
                await asyncio.sleep(self._chance.expovariate(1 / THINK_S))
        finally:
            self._leave()

    def _path(self) -> str:
        (kind,) = self._chance.choices(list(KINDS), list(KINDS.values()))
        if kind == "category":
            return f"/category/{self._chance.randrange(50)}?from={self._chance.randrange(self._products // 60)}"
        return f"/{kind}/{self._chance.randrange(self._products) + 1}"

    async def _get(self, path: str) -> int:
        """Ask for a page, take all of it, and return its status."""
        if self._stream is None:
            self._stream = await asyncio.open_connection(self._address, self._port)
        reader, writer = self._stream
        writer.write(f"GET {path} HTTP/1.1\r\nHost: shop\r\nAccept-Encoding: gzip\r\n\r\n".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        if "transfer-encoding: chunked" in head:
            while size := int(await reader.readuntil(b"\r\n"), 16):
                await reader.readexactly(size + 2)
            await reader.readexactly(2)
        else:
            await reader.readexactly(int(head.partition("content-length:")[2].split("\r\n")[0]))
        if "connection: close" in head:
            self._leave()
        return int(head.split()[1])

    def _leave(self) -> None:
        if self._stream is not None:
            self._stream[1].close()
            self._stream = None


async def main() -> None:
    address, port, seed, products = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    told = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(told), sys.stdin)
    visitors: list[asyncio.Task[None]] = []
    came = 0
    while line := await told.readline():
        wanted = int(line)
        while len(visitors) < wanted:
            visitor = Visitor(address, port, products, random.Random(f"{seed}:{came}"))
            visitors.append(asyncio.create_task(visitor.visit()))
            came += 1
        leaving = visitors[wanted:]
        del visitors[wanted:]
        for task in leaving:
            task.cancel()
        for task in leaving:
            with suppress(asyncio.CancelledError):
                await task


if __name__ == "__main__":
    asyncio.run(main())
