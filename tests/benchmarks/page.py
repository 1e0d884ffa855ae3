"""The response times of the page's API, and its cost, with 500 processes and a day of ticks of 5 s.

    python -m tests.benchmarks.page
    python -m tests.benchmarks.page --bus /tmp/page/laggard.db --rounds 40

`laggard serve` runs as a process of its own on a bus that `tests.benchmarks.history` made. Without `--bus`, the bus is
made first, in a folder that is deleted afterward. Each line is of requests one after the other, as a page sends them.
`first` is the first one of all, and `moment` is of new moments anywhere in the day. `beside` is of the tick after the
previous one, and `again` of moments that were requested before. `row` and `series` are of another row at a moment that
is shown. `whole` lasts until a series has every tick. Times are of the client, with HTTP. CPU is all of the server's
meanwhile, also for completing a series in the background. It says more if others use the machine, too.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx
import numpy as np

from laggard.pipeline.core.claims import holder_of
from laggard.producers.system.kernel import cpu_clock
from tests.benchmarks.history import HOST, TROUBLED, make_history
from tests.brokers.processes import start
from tests.monitoring.servers import awaited

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator

POLL_S: Final = 0.1
"""The interval at which a page requests the rest of a series."""


class Page:
    """Asks a server, and remembers how long each kind of question took, and its CPU time, in seconds."""

    def __init__(self, client: httpx.Client, pid: int) -> None:
        self._client = client
        self._pid = pid
        self.took: dict[str, list[tuple[float, float]]] = {}

    def get(self, kind: str, path: str, **asked: Any) -> Any:
        """Ask; what it took is noted as of this kind."""
        with self._timed(kind):
            answer = self._client.get(f"/api/v1{path}", params={"host": HOST, **asked})
        answer.raise_for_status()
        return answer.json()

    def whole(self, kind: str, **asked: Any) -> None:
        """Ask for a series until it has every tick."""
        with self._timed(kind):
            while not self._client.get("/api/v1/series", params={"host": HOST, **asked}).json()["complete"]:
                time.sleep(POLL_S)

    @contextmanager
    def _timed(self, kind: str) -> Iterator[None]:
        began, used = time.perf_counter(), time.clock_gettime(cpu_clock(self._pid))
        yield
        self.took.setdefault(kind, []).append(
            (time.perf_counter() - began, time.clock_gettime(cpu_clock(self._pid)) - used)
        )


@contextmanager
def running_server(bus: Path, folder: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """`laggard serve` on a bus, with its state in a folder; gives where it is, and its process."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LAGGARD_")}
    environment |= {"LAGGARD_STATE": str(folder), "LAGGARD_SERVE_LISTEN": "127.0.0.1:0"}
    environment |= {"LAGGARD_SERVE_REQUIRE_TOKEN": "never"}
    command = [sys.executable, "-P", "-m", "laggard.pipeline.cli", "serve", "--bus", str(bus)]
    log = folder / "serve.log"
    with log.open("wb") as output:
        process = start(command, output, environment)

    def address() -> str:
        assert process.poll() is None, log.read_text()
        held = holder_of(str(bus), folder, "serve")
        return held.url if held else ""

    try:
        yield awaited(address, within_s=60.0), process
    finally:
        process.terminate()
        process.wait(30)


def measure(bus: Path, rounds: int, seed: int, print_: Callable[[str], None] = print) -> None:
    """Print what each kind of question takes."""
    random = np.random.default_rng(seed)
    with (
        tempfile.TemporaryDirectory() as folder,
        running_server(bus, Path(folder)) as (url, process),
        httpx.Client(base_url=url, timeout=60, headers={"Accept-Encoding": "gzip"}) as client,
    ):
        page = Page(client, process.pid)
        print_(f"started: {_rss_mb(process.pid):.0f} MB")
        now = page.get("first /moment", "/moment")
        page.get("first /row", "/row", row=TROUBLED)
        page.get("first /series", "/series", row=TROUBLED, feature="cpu_user_ratio")
        page.get("first /timeline", "/timeline")
        page.whole("whole 4 h", row=TROUBLED, feature="cpu_user_ratio")
        first, last = (page.get("again /timeline", "/timeline")[each] for each in ("first_ts", "last_ts"))
        rows = [each["row"] for each in now["rows"]]
        for row in random.choice(rows, rounds, replace=False):
            page.get("row /row", "/row", row=row)
            page.get("row /series", "/series", row=row, feature="cpu_user_ratio")
        page.whole("whole 4 h, other row", row=rows[-1], feature="cpu_user_ratio")
        moments = random.uniform(first + 3600.0, last, rounds)
        for at in moments:
            found = page.get("moment /moment", "/moment", at=at)
            row = found["rows"][0]["row"]
            page.get("moment /row", "/row", at=at, row=row)
            page.get("moment /series", "/series", at=at, row=row, feature="cpu_user_ratio")
            page.get("beside /moment", "/moment", at=found["ts"] + found["tick_s"])
        for at in moments[-8:]:
            page.get("again /moment", "/moment", at=at)
        for at in random.uniform(first + 3600.0, last, rounds):
            page.get("compare /compare", "/compare", at=at, **{"with": at - 3600.0})
        for _ in range(rounds):
            page.get("again /moment, now", "/moment")
        print_(f"after the clicks: {_rss_mb(process.pid):.0f} MB")
        page.whole("whole 24 h", row=rows[1], feature="cpu_user_ratio", **{"from": first, "to": last, "points": 20_000})
        for _ in range(rounds):
            page.get(
                "again /series 24 h", "/series", row=rows[1], feature="cpu_user_ratio",
                **{"from": first, "to": last, "points": 1500},
            )  # fmt: skip
        for row in rows[:40]:
            page.get("row /series 24 h", "/series", row=row, feature="cpu_user_ratio", **{"from": first, "to": last})
        print_(f"after days of rows: {_rss_mb(process.pid):.0f} MB")
    print_(f"{'':24}{'times':>7}{'p50':>9}{'p95':>9}{'most':>9}{'CPU p50':>9}{'p95':>9}")
    for kind, took in page.took.items():
        walls, cpus = zip(*took, strict=True)
        shown = (*np.quantile(walls, (0.5, 0.95, 1.0)), *np.quantile(cpus, (0.5, 0.95)))
        print_(f"{kind:24}{len(took):7}" + "".join(f"{1e3 * each:6.0f} ms" for each in shown))


def _rss_mb(pid: int) -> float:
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["VmRSS"].split()[0]) / 1e3


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bus", type=Path, help="made before; without it one is made")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if given.bus is not None:
        measure(given.bus, given.rounds, given.seed)
        return
    with tempfile.TemporaryDirectory() as folder:
        bus = Path(folder) / "laggard.db"
        make_history(bus)
        measure(bus, given.rounds, given.seed)


if __name__ == "__main__":
    main()
