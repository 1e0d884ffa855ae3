"""The cost of following access logs: lines per second of CPU time, beside the plainest loops in the same run.

    python -m tests.benchmarks.access_log [--lines 200000] [--rounds 5]

`laggard` is all of it: it follows a real file from its begin, parses it, aggregates it in intervals of 10 s, and writes
frames and positions. The plain loops only read the same file line by line. `re` finds the three fields in nginx's
combined format by named groups, and converts them to numbers. With `strptime` it also converts the text of the time.
`json` decodes each line and reads three fields. Each kind has its turn in each round, and the fastest round of each
counts, in CPU time of this process. The last lines are the cost of reading logs without new lines, for one and for a
hundred of them.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from laggard.producers.sources.access_log.parsers import parser_of
from laggard.producers.sources.access_log.source import AccessLog

if TYPE_CHECKING:
    from collections.abc import Callable

BEGIN = 1795356370.0
PER_S = 500
AGENT = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36"
PLAIN = re.compile(
    r"(?P<address>\S+) - (?P<user>\S+) \[(?P<time>[^\]]+)\] "
    r'"(?P<request>[^"]*)" (?P<status>\d+) (?P<size>\d+) "(?P<referer>[^"]*)" "(?P<agent>[^"]*)" (?P<took>[\d.]+)'
)


def nginx_line(number: int) -> str:
    when = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(BEGIN + number / PER_S))
    request = f"GET /catalogue/{number % 977}?page={number % 13} HTTP/1.1"
    address = f"10.0.{number % 256}.{number % 199}"
    return f'{address} - - [{when}] "{request}" 200 5120 "https://shop/" "{AGENT}" 0.{number % 997:03}\n'


def json_line(number: int) -> str:
    request = {"remote_ip": "10.0.0.1", "method": "GET", "uri": f"/{number}", "headers": {"User-Agent": [AGENT]}}
    said = {"level": "info", "ts": BEGIN + number / PER_S, "logger": "http.log.access.log0", "msg": "handled request"}
    return (
        json.dumps({**said, "request": request, "duration": 0.001 * (number % 997), "size": 5120, "status": 200}) + "\n"
    )


def plain_re(path: Path) -> int:
    with path.open() as file:
        for line in file:
            match = PLAIN.match(line)
            assert match is not None
            float(match["took"])
            int(match["status"])
            match["time"]
    return 0


def plain_re_with_time(path: Path) -> int:
    with path.open() as file:
        for line in file:
            match = PLAIN.match(line)
            assert match is not None
            float(match["took"])
            int(match["status"])
            datetime.strptime(match["time"], "%d/%b/%Y:%H:%M:%S %z").timestamp()
    return 0


def plain_json(path: Path) -> int:
    with path.open() as file:
        for line in file:
            said = json.loads(line)
            float(said["duration"])
            int(said["status"])
            float(said["ts"])
    return 0


def following(path: Path, said: str) -> int:
    """Follow a log that appears after the first read. Return the number of reported requests."""
    with tempfile.TemporaryDirectory() as folder:
        link = Path(folder) / "access.log"
        source = AccessLog("log", "shop", [str(link)], parser_of(said, {}), Path(folder) / "state.json", grace_s=2.0)
        source.parse(source.read(BEGIN - 10.0))
        link.symlink_to(path)
        told, more = 0.0, True
        while more:
            taken = source.parse(source.read(BEGIN + 1e6))
            told += sum(float(frame.values[0][0]) * 10.0 for frame in taken.frames)
            source.published()
            more = taken.more
        source.close()
        return round(told)


def looks(files: int) -> float:
    """Return the seconds of CPU time of reading logs without new lines."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(files):
            (Path(folder) / f"{number}.log").write_text(nginx_line(number))
        source = AccessLog("log", "shop", [f"{folder}/*.log"], parser_of("nginx", {}), Path(folder) / "state.json")
        source.parse(source.read(BEGIN))
        count = 2000 // files
        began = time.process_time()
        for number in range(count):
            source.parse(source.read(BEGIN + 1e-6 * number))
            source.published()
        spent = time.process_time() - began
        source.close()
    return spent / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text, objects = Path(folder) / "text.log", Path(folder) / "objects.log"
        text.write_text("".join(map(nginx_line, range(given.lines))))
        objects.write_text("".join(map(json_line, range(given.lines))))
        works: dict[str, Callable[[], int]] = {
            "laggard, nginx": lambda: following(text, "nginx"),
            "plain re": lambda: plain_re(text),
            "plain re, strptime": lambda: plain_re_with_time(text),
            "laggard, JSON": lambda: following(objects, "json"),
            "plain json": lambda: plain_json(objects),
        }
        best = dict.fromkeys(works, float("inf"))
        for _ in range(given.rounds):
            for name, work in works.items():
                began = time.process_time()
                told = work()
                best[name] = min(best[name], time.process_time() - began)
                assert not told or told == given.lines, told
        bytes_each = [path.stat().st_size / given.lines for path in (text, objects)]
        print(f"{given.lines:,} lines of {bytes_each[0]:.0f} bytes; of JSON {bytes_each[1]:.0f} bytes")
        for name, seconds in best.items():
            print(f"{name:22}{given.lines / seconds:12,.0f} lines/s{seconds / given.lines * 1e6:8.2f} us")
    for files in (1, 100):
        print(f"a look at {files} logs without news: {looks(files) * 1e6:,.0f} us")


if __name__ == "__main__":
    main()
