"""A page that stays open on a live `laggard up`: `python -m tests.benchmarks.page_open --minutes 16`.

At two ticks a second the page reads again every second: in 16 minutes more often than in an hour at ticks of 5 s.
Prints, twice a minute, what it holds after its garbage was collected, and the resident memory of its renderer and of
the server.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import psutil
from playwright.sync_api import expect

from laggard.pipeline.core.claims import holder_of
from tests.browser.chromium import started
from tests.browser.measures import held
from tests.browser.test_live import first_process, up

EVERY_MS = 30_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=16.0)
    minutes = parser.parse_args().minutes
    with tempfile.TemporaryDirectory() as name, up(Path(name)) as url, started() as browser:
        holder = holder_of(str(Path(name) / "laggard.db"), Path(name), "serve")
        assert holder is not None
        server = psutil.Process(holder.pid)
        tab = browser.new_page(viewport={"width": 1280, "height": 800})
        read = 0

        def answered() -> None:
            nonlocal read
            read += 1

        tab.on("response", lambda response: answered() if "/api/v1/moment" in response.url else None)
        tab.goto(url)
        expect(first_process(tab)).to_be_visible(timeout=60_000)
        session = tab.context.new_cdp_session(tab)
        session.send("Performance.enable")
        processes = browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
        renderers = [psutil.Process(each["id"]) for each in processes if each["type"] == "renderer"]
        renderer = max(renderers, key=lambda each: each.memory_info().rss)
        print("minutes  moments read  heap MB  nodes  listeners  renderer MB  server MB  server CPU s", flush=True)
        begun = time.monotonic()
        while (elapsed := time.monotonic() - begun) < 60.0 * minutes + 1.0:
            page = held(session)
            cpu = server.cpu_times()
            print(
                f"{elapsed / 60:7.1f}  {read:12d}  {page.heap_bytes / 1e6:7.2f}  {page.nodes:5.0f}  "
                f"{page.listeners:9.0f}  {renderer.memory_info().rss / 1e6:11.0f}  "
                f"{server.memory_info().rss / 1e6:9.0f}  {cpu.user + cpu.system:12.1f}",
                flush=True,
            )
            tab.wait_for_timeout(EVERY_MS)


if __name__ == "__main__":
    main()
