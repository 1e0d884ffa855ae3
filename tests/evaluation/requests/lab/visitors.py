"""Visitors of a web server: each asks for a page, reads it for a while, and asks for the next one (a closed loop).

    python -m tests.evaluation.requests.lab.visitors PORT VISITORS THINK_S NUMBERS SEED PATH=WEIGHT...

A path has `{}` in the place of a number from 1 to NUMBERS. Each answer is a line of JSON on the standard output. It has
`ts` (when the page was requested, seconds since the Unix epoch), `took_s`, `status` (0 without one) and `path`. Its
headers give `thread`, `begin`, `end` and `phases`. The program ends with its standard input.
"""

from __future__ import annotations

import http.client
import json
import random
import sys
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

TIMEOUT_S: Final = 30.0


def choose(paths: dict[str, float], numbers: int, chance: random.Random) -> str:
    """Choose a page."""
    (path,) = chance.choices(list(paths), list(paths.values()))
    return path.format(chance.randrange(numbers) + 1)


def visit(port: int, think_s: float, chosen: Callable[[], str], chance: random.Random, leave: threading.Event) -> None:
    """Come, and go on until it is time to leave."""
    while not leave.wait(chance.expovariate(1 / think_s)):
        path = chosen()
        ts, begin = time.time(), time.perf_counter()
        answer: dict[str, object] = {"ts": ts, "path": path, "status": 0}
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
        try:
            connection.request("GET", path, headers={"Connection": "close"})
            response = connection.getresponse()
            response.read()
            answer["status"] = response.status
            if response.status == http.client.OK:
                answer["thread"] = int(response.headers["X-Thread"])
                answer["begin"] = float(response.headers["X-Begin"])
                answer["end"] = float(response.headers["X-End"])
                answer["phases"] = json.loads(response.headers["X-Phases"])
        except (OSError, http.client.HTTPException) as error:
            answer["error"] = str(error)
        finally:
            connection.close()
        answer["took_s"] = time.perf_counter() - begin
        print(json.dumps(answer) + "\n", end="", flush=True)


def main() -> None:
    """Let them come until standard input ends."""
    port, visitors, think_s, numbers, seed, *rest = sys.argv[1:]
    paths = {path: float(weight) for path, _, weight in (each.rpartition("=") for each in rest)}
    leave = threading.Event()
    threads = []
    for each in range(int(visitors)):
        chance = random.Random(f"{seed}:{each}")
        chosen = partial(choose, paths, int(numbers), chance)
        threads.append(threading.Thread(target=visit, args=(int(port), float(think_s), chosen, chance, leave)))
    for thread in threads:
        thread.start()
    sys.stdin.read()
    leave.set()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
