"""A real `laggard up`, a real hog, and a person who asks the page why it is slow."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from laggard.pipeline.core.claims import holder_of
from tests.monitoring.servers import awaited

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.slow

LAGGARD = [sys.executable, "-P", "-m", "laggard.pipeline.cli"]
HOG = "lag-hog"
NOTE = "checkout <b>hangs</b>"
CALM_MS = 25_000
"""So long the model learns before anything happens."""

FOUND_MS = 120_000

# How many pixels of the chart have exactly the color of a variable of the style sheet, in each column where any has.
PIXELS = """(chart, variable) => {
  const canvas = chart.querySelector("canvas");
  const { width, height } = canvas;
  const copy = new OffscreenCanvas(width, height + 1).getContext("2d", { willReadFrequently: true });
  copy.drawImage(canvas, 0, 0);
  chart.style.color = `var(${variable})`;
  copy.fillStyle = getComputedStyle(chart).color;
  chart.style.removeProperty("color");
  copy.fillRect(0, height, 1, 1);
  const wanted = copy.getImageData(0, height, 1, 1).data;
  const found = copy.getImageData(0, 0, width, height).data;
  const columns = {};
  for (let at = 0; at < found.length; at += 4)
    if ([0, 1, 2, 3].every((part) => found[at + part] === wanted[part])) {
      const column = (at / 4) % width;
      columns[column] = (columns[column] ?? 0) + 1;
    }
  return columns;
}"""


@contextmanager
def up(folder: Path) -> Iterator[str]:
    """`laggard up` at two ticks a second; gives the page's address."""
    bus = str(folder / "laggard.db")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LAGGARD_")}
    with subprocess.Popen(
        [
            *(*LAGGARD, "up", "--bus", bus, "--interval", "500ms"),
            *("--set", "web.listen=127.0.0.1:0", "--set", "serve.listen=127.0.0.1:0", "--set", "host=web-1"),
            *("--set", "serve.require_token=never"),  # whoever has an account here
        ],
        stdout=subprocess.DEVNULL,
        cwd=folder,
        env={**environment, "LAGGARD_STATE": str(folder)},
    ) as process:
        try:
            yield awaited(lambda: held.url if (held := holder_of(bus, folder, "serve")) else "", within_s=60.0)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(timeout=60)


@contextmanager
def hog(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that does nothing until it is written a line, and then takes all of a CPU: before others, if it may."""
    program = folder / HOG
    shutil.copy("/bin/sh", program)
    with subprocess.Popen(
        ["nice", "-n", "-15", str(program), "-c", "read -r line; while :; do :; done"],
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def begin(hog: subprocess.Popen[str]) -> None:
    assert hog.stdin is not None
    hog.stdin.write("go\n")
    hog.stdin.flush()


def first_process(tab: Page) -> Locator:
    """The row of the process that is ranked first, below that of the host."""
    return tab.get_by_role("grid", name="Processes").locator("tbody tr:not(.now-host)").first


def test_who_asks_why_it_is_slow_shows_a_colleague_the_same(tab: Page, tmp_path: Path) -> None:
    with up(tmp_path) as url:
        tab.goto(url)
        # While no row is judged there is nothing to draw a series of.
        expect(first_process(tab).get_by_role("gridcell").first).to_have_text(re.compile(r"\d"), timeout=FOUND_MS)
        asked_why(tab)
        tab.context.close()  # before the server ends, for the page would miss it


@pytest.mark.long
def test_who_asks_why_it_is_slow_is_shown_the_hog(tab: Page, tmp_path: Path) -> None:
    with hog(tmp_path) as lurking, up(tmp_path) as url:
        tab.goto(url)
        expect(first_process(tab)).to_be_visible(timeout=FOUND_MS)
        tab.wait_for_timeout(CALM_MS)
        begin(lurking)
        # Live: nothing is pressed, nothing is loaded again.
        expect(first_process(tab)).to_contain_text(HOG, timeout=FOUND_MS)
        asked_why(tab, HOG, str(lurking.pid))
        tab.context.close()


def asked_why(tab: Page, *first: str) -> None:
    """Mark what is slow now, and check that a colleague who is sent the address sees the same."""
    tab.get_by_role("button", name="Why is it slow?").click()
    tab.get_by_label("What is slow?").fill(NOTE)
    # Until the moment is there, the table shows the newest one: another row may be first in it.
    with tab.expect_response(re.compile(r"/api/v1/moment\?.*\bat=\d")):
        tab.get_by_role("dialog").get_by_role("button", name="Mark", exact=True).click()
    expect(tab).to_have_url(re.compile(r"[?&]at=\d+"))
    expect(tab.locator("main [aria-busy=true]")).to_have_count(0)
    told = looked_at(tab, *first)
    other = tab.context.new_page()
    other.goto(tab.url)
    assert looked_at(other, *first) == told


def looked_at(tab: Page, *names: str) -> tuple[str, str]:
    """Check what is to be seen of the marked moment; gives who is first and the sentence that tells it."""
    first = first_process(tab)
    expect(first).to_be_visible()
    for name in names:
        expect(first).to_contain_text(name)
    first.click()  # its series, where the host itself is further from its baseline than any process
    expect(first).to_have_attribute("aria-selected", "true")
    expect(tab.locator("laggard-chart canvas")).to_be_visible()
    expect(tab.locator(".now-legend")).to_contain_text("marks")
    chart = tab.locator("laggard-chart")

    # The crosshair is a column of the chart, as high as what is plotted, at the moment of the frame that was asked for.
    moment = tab.evaluate("at => fetch(`/api/v1/moment?at=${at}`).then((answer) => answer.json())", at_of(tab))["ts"]
    at = chart.evaluate("(chart, ts) => chart.plot.valToPos(ts, 'x', true)", moment)
    high = chart.evaluate("chart => chart.plot.bbox.height")
    crosshair = {int(column): pixels for column, pixels in chart.evaluate(PIXELS, "--crosshair").items()}
    assert max(crosshair, key=lambda column: crosshair[column]) == pytest.approx(at, abs=1.0)
    assert max(crosshair.values()) >= 0.9 * high
    # The mark is drawn with its note, which stays text.
    marked = tab.evaluate("() => fetch('/api/v1/marks').then((answer) => answer.json())")["marks"]
    assert [each["note"] for each in marked] == [NOTE]
    assert sum(chart.evaluate(PIXELS, "--mark").values()) > 20
    tab.get_by_role("button", name="Marks").click()
    expect(tab.get_by_role("group", name="Marks and incidents")).to_contain_text(NOTE)
    tab.keyboard.press("Escape")
    return first.inner_text(), tab.get_by_label("Findings").locator("p").first.inner_text()


def at_of(tab: Page) -> float:
    found = re.search(r"[?&]at=([\d.]+)", tab.url)
    assert found
    return float(found[1])
