"""The time until the page shows something, measured in Chromium, with 500 processes and a day of ticks of 5 s.

    python -m tests.benchmarks.page_browser
    python -m tests.benchmarks.page_browser --bus /tmp/page/laggard.db --rounds 40

`laggard serve` runs as a process of its own on a bus that `tests.benchmarks.history` made. Without `--bus`, the bus is
made first, in a folder that is deleted afterward. Each time ends with the frame that shows the result. `painted` is the
browser's first paint of anything, and `ranking` that of the processes, with nothing in the browser's cache. `row` is
from the click on another process to its features and its series. `moment` is from the choice of a moment anywhere in
the day to its ranking, `tick` from the choice of the previous tick. A chart is drawn of 100,000 points, too.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from playwright.sync_api import expect

from tests.benchmarks.history import make_history
from tests.benchmarks.page import running_server
from tests.browser.chromium import started
from tests.browser.conftest import WIDE

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Browser, Page

LOADS: Final = 10
CHARTS: Final = 10

_RANKING: Final = """
window.shown = new Promise((shown) => {
  const look = () => {
    if (document.querySelector(".now-ranking tbody tr:not(.now-host)"))
      requestAnimationFrame(() => setTimeout(() => shown(performance.now())));
    else requestAnimationFrame(look);
  };
  look();
});
"""

# The frame after `act` in which `is` holds: what it draws is painted when the task after that frame's begins.
_UNTIL: Final = """
const until = async (act, is) => {
  const begun = performance.now();
  act();
  while (!is()) await new Promise((next) => requestAnimationFrame(next));
  await new Promise((next) => requestAnimationFrame(() => setTimeout(next)));
  return performance.now() - begun;
};
"""

_ROW: Final = (
    "async (id) => {"
    + _UNTIL
    + """
  const row = document.querySelector(`[data-row="${CSS.escape(id)}"]`);
  const pid = row.querySelector(".now-pid").textContent;
  const before = document.querySelector("laggard-chart")?.plot?.data;
  return until(
    () => row.click(),
    () => {
      const features = document.querySelector(".now-features");
      const drawn = document.querySelector("laggard-chart")?.plot?.data;
      return features.textContent.includes(`pid ${pid}`) && features.querySelectorAll("tbody tr").length > 5
        && drawn && drawn !== before;
    });
}"""
)

_MOMENT: Final = (
    "async (at) => {"
    + _UNTIL
    + """
  const shown = () => new Date(document.querySelector(".now-times h1 time")?.dateTime ?? NaN).getTime() / 1000;
  const slider = document.querySelector("#now-slider");
  const before = shown();
  return until(
    () => {
      if (at === null) return document.querySelector("[aria-label='One tick back']").click();
      slider.value = String(at);
      slider.dispatchEvent(new Event("change", { bubbles: true }));
    },
    () => {
      const there = at === null ? shown() !== before : Math.abs(shown() - at) < 10;
      return there && document.querySelector(".now-ranking tbody tr");
    });
}"""
)

_CHART: Final = (
    "async (points) => {"
    + _UNTIL
    + """
  const ts = Array.from({ length: points }, (_, index) => 1.7e9 + index);
  const values = ts.map((_, index) => 0.5 + 0.4 * Math.sin(index / 500) + 0.1 * Math.sin(index * 7.3));
  const chart = document.createElement("laggard-chart");
  document.querySelector("main").prepend(chart);
  const took = await until(
    () => (chart.chart = { feature: "cpu_user_ratio", ts, lines: [{ label: "cpu_user_ratio", values }] }),
    () => chart.plot);
  chart.remove();
  return took;
}"""
)


def measure(bus: Path, rounds: int, seed: int, print_: Callable[[str], None] = print) -> None:
    """Print how long each kind of thing takes."""
    random = np.random.default_rng(seed)
    with (
        tempfile.TemporaryDirectory() as folder,
        running_server(bus, Path(folder)) as (url, _),
        started() as browser,
    ):
        took: dict[str, list[float]] = {}
        for _ in range(LOADS):
            painted, ranking = _load(browser, url)
            took.setdefault("painted", []).append(painted)
            took.setdefault("ranking", []).append(ranking)
        tab = browser.new_page(viewport=WIDE)
        tab.goto(url)
        expect(tab.locator("laggard-chart canvas")).to_be_visible()
        rows = tab.locator(".now-ranking tbody tr:not(.now-host)").evaluate_all(
            "rows => rows.map((row) => row.dataset.row)"
        )
        took["row"] = [
            tab.evaluate(_ROW, row) for row in random.choice(rows[1:], min(rounds, len(rows) - 1), replace=False)
        ]
        tab.locator("#now-range").select_option("86400")
        tab.wait_for_timeout(3000)
        first, last = (float(tab.locator("#now-slider").get_attribute(each) or "nan") for each in ("min", "max"))
        took["moment"] = [
            _paused(tab, _MOMENT, float(at)) for at in random.uniform(first + 3600.0, last - 60.0, rounds)
        ]
        took["tick"] = [_paused(tab, _MOMENT, None) for _ in range(rounds)]
        took["chart of 100,000 points"] = [tab.evaluate(_CHART, 100_000) for _ in range(CHARTS)]
    print_(f"{'':24}{'times':>7}{'p50':>9}{'p95':>9}{'most':>9}")
    for kind, each in took.items():
        p50, p95 = statistics.median(each), float(np.quantile(each, 0.95))
        print_(f"{kind:24}{len(each):7}{p50:6.0f} ms{p95:6.0f} ms{max(each):6.0f} ms")


def _load(browser: Browser, url: str) -> tuple[float, float]:
    """Open the page with an empty cache; gives when anything and when the ranking was painted, in milliseconds."""
    with browser.new_context(viewport=WIDE) as context:
        tab = context.new_page()
        tab.add_init_script(_RANKING)
        tab.goto(url)
        ranking: float = tab.evaluate("window.shown")
        painted: float = tab.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        return painted, ranking


def _paused(tab: Page, script: str, argument: float | None) -> float:
    """Measure once what was asked for before has been drawn, as a person does."""
    tab.wait_for_timeout(300)
    took: float = tab.evaluate(script, argument)
    return took


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bus", type=Path)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    if asked.bus is not None:
        return measure(asked.bus, asked.rounds, asked.seed)
    with tempfile.TemporaryDirectory() as folder:
        bus = Path(folder) / "laggard.db"
        make_history(bus)
        return measure(bus, asked.rounds, asked.seed)


if __name__ == "__main__":
    main()
