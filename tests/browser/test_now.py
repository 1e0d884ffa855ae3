"""The view of now, and of a moment, as somebody uses it: keyboard, addresses, filter, slider, two moments, marks."""

from __future__ import annotations

import re
import shutil
import time
from datetime import datetime
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from playwright.sync_api import expect

from laggard.pipeline.core.bus import Outgoing
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.records import Frame, encode, make_layout
from laggard.pipeline.core.topics import COUNTERS, Topics
from tests.browser.conftest import NARROW, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray
    from playwright.sync_api import Locator, Page

    from laggard.pipeline.core.bus import Bus
    from tests.browser.conftest import NewTab, Serve
    from tests.pipeline.investigator.serving import Served

pytestmark = pytest.mark.slow

HOST: Final = "web-1"
TICKS: Final = 240
TICK_S: Final = 1.0
HOG_TICKS: Final = 20
"""So long before the end the hog begins."""

SCRIPT: Final = "<script>alert(1)</script>"
IMAGE: Final = '"><img src=x onerror=alert(1)>'
TURNED: Final = "nginx\u202egnp.exe"
HOG: Final = "lag-hog"

FEATURES: Final = ("cpu_user_ratio", "cpu_wait_ratio", "memory_rss_bytes", "io_read_bytes_per_s")
OF_HOST: Final = ("cpu_busy_ratio", "load_1m", "memory_available_bytes", "pressure_cpu_some_ratio")


class Machine:
    """A host with a hog, hostile names and a number of processes in all; its ticks end now."""

    def __init__(self, processes: int, ticks: int = TICKS, host: str = HOST) -> None:
        names = [SCRIPT, IMAGE, TURNED, HOG, *(f"worker-{number}" for number in range(processes - 4))]
        commands = [f"/usr/bin/{name} --serve={number}" for number, name in enumerate(names)]
        rows = [f"{name}[{100 + number}@{number}]" for number, name in enumerate(names)]
        users = ["www-data" if number % 2 else "root" for number in range(len(names))]
        containers = [f"shop-{number}" if number % 3 == 0 else "" for number in range(len(names))]
        self._layout = make_layout(rows, names, FEATURES, commands, users=users, containers=containers)
        self._host = host
        self._own = make_layout((host,), (host,), OF_HOST)
        self._random = np.random.default_rng(3)
        self._sequence = 0
        self.begins = time.time() - ticks * TICK_S
        self.ts = self.begins

    def tick(self, *, hog: bool = False, busy: str = "") -> list[Outgoing]:
        """The next tick: `hog` burns, and so does the process that `busy` names."""
        usual = np.array([0.02, 0.01, 50e6, 2e4])
        values: NDArray[np.float64] = usual * self._random.lognormal(0.0, 0.1, (len(self._layout.rows), len(usual)))
        for name, burns in ((HOG, hog), (busy, bool(busy))):
            if burns:
                values[self._layout.names.index(name), 0] = 0.97
        quiet, burning = np.array([0.1, 0.3, 8e9, 0.01]), np.array([0.9, 4.0, 8e9, 0.4])
        own = (burning if hog else quiet) * self._random.lognormal(0.0, 0.05, (1, len(OF_HOST)))
        self.ts += TICK_S
        self._sequence += 1
        frames = [
            Frame("host", self._host, "process", self.ts, self._sequence, self._layout, values),
            Frame("host", self._host, "host", self.ts, self._sequence, self._own, own),
        ]
        topic = Topics().name(COUNTERS)
        return [Outgoing(topic, frame.key, encode(frame), frame.ts) for frame in frames]


def make_bus(path: Path, processes: int, ticks: int) -> Machine:
    machine = Machine(processes, ticks)
    with EmbeddedBus(path) as bus:
        bus.create(Topics().specs())
        for number in range(ticks):
            bus.append(machine.tick(hog=number >= ticks - HOG_TICKS))
    return machine


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Machine]:
    path = tmp_path_factory.mktemp("now") / "bus.db"
    return path, make_bus(path, 12, TICKS)


@pytest.fixture
def machine(made: tuple[Path, Machine]) -> Machine:
    return made[1]


@pytest.fixture
def page(made: tuple[Path, Machine], tmp_path: Path, serve: Serve) -> Served:
    """A page on a bus of the test's own, at whose end the hog runs; its time stands there."""
    path, machine = made
    shutil.copy(path, tmp_path / "bus.db")
    return at_end(serve(tmp_path / "bus.db"), machine.ts)


def at_end(page: Served, ts: float) -> Served:
    page.reading.clock = lambda: max(ts + 0.2, 0.0)
    return page


def processes(tab: Page) -> Locator:
    return tab.get_by_role("grid", name="Processes").locator("tbody tr")


def features(tab: Page) -> Locator:
    return tab.get_by_role("grid", name="Features").locator("tbody tr")


def chosen(tab: Page) -> Locator:
    return tab.locator(".now-ranking tr[aria-selected=true]")


def params(tab: Page) -> dict[str, str]:
    found: dict[str, str] = tab.evaluate("Object.fromEntries(new URLSearchParams(location.search))")
    return found


def asked(tab: Page) -> float:
    """The moment in the address; NaN for now."""
    return float(params(tab).get("at", "nan"))


def drawn(tab: Page, feature: str) -> None:
    """Wait until the series of a feature is drawn."""
    expect(tab.locator(".now-series h2")).to_contain_text(feature)
    until(tab, lambda: tab.evaluate("document.querySelector('laggard-chart')?.plot?.data[0].length > 0"))


def test_the_culprit_is_first_with_its_features_and_series(page: Served, tab: Page, machine: Machine) -> None:
    tab.goto(page.url)
    first = processes(tab).first
    expect(first).to_contain_text(HOG)
    expect(first).to_contain_text("culprit")
    expect(first).to_contain_text("www-data")
    expect(first).to_contain_text("shop-3")
    expect(first).to_have_attribute("aria-selected", "true")
    expect(tab.get_by_label("Findings")).to_contain_text(HOG)
    expect(features(tab).first).to_contain_text("cpu_user_ratio")
    expect(features(tab).first).to_contain_text("97 %")
    drawn(tab, "cpu_user_ratio")
    chart = tab.locator("laggard-chart")
    assert chart.evaluate("chart => chart.plot.data[1].at(-1)") == pytest.approx(0.97)
    assert chart.evaluate("chart => chart.plot.scales.x.max") == pytest.approx(machine.ts, abs=1.0)
    expect(chart).to_have_attribute("aria-label", re.compile("97 % at the moment"))

    # Who cannot see the chart has the values.
    tab.get_by_text("As a table").click()
    newest = tab.get_by_role("region", name="Values").locator("tbody tr").first
    expect(newest).to_contain_text("97 %")


def test_names_from_outside_stay_text(page: Served, tab: Page) -> None:
    tab.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
    tab.goto(page.url)
    grid = tab.get_by_role("grid", name="Processes")
    expect(grid).to_contain_text(SCRIPT)
    expect(grid).to_contain_text(IMAGE)
    assert tab.locator("main script, main img").count() == 0
    for name in (SCRIPT, IMAGE):
        processes(tab).filter(has_text=name).first.click()
        expect(tab.locator(".now-features h2")).to_contain_text(name)
        drawn(tab, "")
    # An override of the direction of writing turns nothing but the name itself.
    turned = processes(tab).filter(has_text="gnp.exe").locator(".now-name")
    assert turned.evaluate("each => getComputedStyle(each).unicodeBidi") == "isolate"


def test_it_is_used_by_the_keyboard(page: Served, tab: Page) -> None:
    tab.goto(page.url)
    expect(chosen(tab)).to_contain_text(HOG)
    tab.keyboard.press("/")
    expect(tab.get_by_label("Filter")).to_be_focused()
    tab.keyboard.type("worker serve")
    expect(processes(tab)).to_have_count(8)
    tab.keyboard.press("ArrowDown")
    expect(processes(tab).first).to_be_focused()
    tab.keyboard.press("ArrowDown")
    expect(processes(tab).nth(1)).to_be_focused()
    expect(processes(tab).nth(1)).to_have_attribute("aria-selected", "true")
    # One row alone is in the order of Tab.
    assert processes(tab).evaluate_all("rows => rows.filter((row) => row.tabIndex === 0).length") == 1
    tab.keyboard.press("k")
    expect(processes(tab).first).to_have_attribute("aria-selected", "true")
    tab.keyboard.press("j")
    expect(processes(tab).nth(1)).to_be_focused()
    row = processes(tab).nth(1).get_attribute("data-row")
    assert params(tab)["row"] == row

    tab.keyboard.press("Enter")
    expect(tab.locator(".now-features")).to_be_focused()
    expect(features(tab)).to_have_count(len(FEATURES))
    tab.keyboard.press("Tab")
    expect(features(tab).first).to_be_focused()
    tab.keyboard.press("End")
    expect(features(tab).last).to_be_focused()
    expect(features(tab).last).to_have_attribute("aria-selected", "true")
    assert params(tab)["feature"] == features(tab).last.get_attribute("data-feature")

    tab.keyboard.press("?")
    keys = tab.get_by_role("dialog", name="Keys")
    expect(keys).to_be_visible()
    tab.keyboard.press("j")
    assert params(tab)["row"] == row, "behind a dialog keys do nothing"
    tab.keyboard.press("Escape")
    expect(keys).to_be_hidden()
    tab.keyboard.press("m")
    expect(tab.get_by_role("dialog", name="Why is it slow?")).to_be_visible()
    expect(tab.get_by_label("What is slow?")).to_be_focused()


def test_keys_of_one_character_can_be_switched_off(page: Served, tab: Page) -> None:
    tab.goto(page.url)
    expect(chosen(tab)).to_contain_text(HOG)
    tab.keyboard.press("?")
    tab.get_by_label("Enable keys of one character").uncheck()
    tab.keyboard.press("Escape")
    for again in range(2):
        tab.keyboard.press("m")
        tab.keyboard.press("?")
        expect(tab.locator("dialog[open]")).to_have_count(0)
        if not again:
            tab.reload()
            expect(chosen(tab)).to_contain_text(HOG)
    tab.get_by_role("button", name="Keys").click()
    tab.get_by_label("Enable keys of one character").check()
    tab.keyboard.press("Escape")
    tab.keyboard.press("m")
    expect(tab.get_by_role("dialog", name="Why is it slow?")).to_be_visible()


def test_the_wheel_looks_closer_and_the_address_says_so_once_it_rests(page: Served, tab: Page) -> None:
    tab.goto(page.url)
    expect(tab.locator(".now-series laggard-chart canvas")).to_be_visible()
    tab.evaluate("""() => {
      window.changes = 0;
      const replace = history.replaceState.bind(history);
      history.replaceState = (...given) => { window.changes += 1; replace(...given); };
    }""")
    tab.locator(".now-series laggard-chart .u-over").hover()
    # All at once: on a busy machine the wheel would rest between two turns of the mouse.
    tab.locator(".now-series laggard-chart .u-over").evaluate("""(over) => {
      const { left, top, width, height } = over.getBoundingClientRect();
      const at = { clientX: left + width / 2, clientY: top + height / 2, bubbles: true, cancelable: true };
      for (let turn = 0; turn < 12; turn += 1) over.dispatchEvent(new WheelEvent("wheel", { ...at, deltaY: -100 }));
    }""")
    until(tab, lambda: "from" in params(tab))
    assert float(params(tab)["to"]) - float(params(tab)["from"]) < 4 * 3600 / 5
    assert tab.evaluate("window.changes") <= 3


def test_ticks_are_stepped_through(page: Served, tab: Page, machine: Machine) -> None:
    tab.goto(page.url)
    expect(tab.get_by_role("heading", level=1)).to_contain_text("Now")
    expect(chosen(tab)).to_contain_text(HOG)
    for number in (1, 2):
        tab.keyboard.press("[")
        expect(tab.get_by_role("heading", level=1)).to_contain_text(clock(tab, machine.ts - number))
    tab.keyboard.press("]")
    expect(tab.get_by_role("heading", level=1)).to_contain_text(clock(tab, machine.ts - 1))
    # The address has milliseconds; a frame's time has more digits, and is not before it.
    assert 0.0 <= asked(tab) - (machine.ts - 1) < 0.0021
    tab.keyboard.press("n")
    expect(tab.get_by_role("heading", level=1)).to_contain_text("Now")
    assert "at" not in params(tab)


def clock(tab: Page, ts: float) -> str:
    found: str = tab.evaluate("ts => new Date(ts * 1000).toLocaleTimeString('en-GB')", ts)
    return found


def test_the_address_is_what_is_shown(page: Served, tab: Page, new_tab: NewTab) -> None:
    tab.goto(page.url)
    expect(chosen(tab)).to_contain_text(HOG)
    processes(tab).filter(has_text="worker-3").click()
    expect(tab.locator(".now-features h2")).to_contain_text("worker-3")
    features(tab).filter(has_text="memory_rss_bytes").click()
    drawn(tab, "memory_rss_bytes")
    tab.get_by_label("Range").select_option("15 min")
    assert params(tab).keys() == {"row", "feature", "range"}

    other = new_tab()
    other.goto(tab.url)
    expect(chosen(other)).to_contain_text("worker-3")
    drawn(other, "memory_rss_bytes")
    expect(other.get_by_label("Range")).to_have_value("900")

    for left in ({"row", "feature"}, {"row"}):
        tab.go_back()
        assert params(tab).keys() == left
        expect(chosen(tab)).to_contain_text("worker-3")
    tab.go_back()
    expect(chosen(tab)).to_contain_text(HOG)


def test_the_filter_searches_name_pid_user_and_command(page: Served, tab: Page) -> None:
    tab.goto(page.url)
    expect(chosen(tab)).to_contain_text(HOG)
    box = tab.get_by_label("Filter")
    for text, count in (("WORKER-5", 1), ("--serve=7", 1), ("shop-", 4), ("root", 6), ("108", 1), ("worker root", 4)):
        box.fill(text)
        expect(processes(tab)).to_have_count(count)
    box.fill("<b>nothing")
    expect(tab.get_by_text("No match in name")).to_be_visible()
    assert params(tab)["filter"] == "<b>nothing"
    box.fill("")
    expect(processes(tab)).to_have_count(13)


def test_the_slider_goes_through_the_history(page: Served, tab: Page, machine: Machine) -> None:
    tab.goto(page.url)
    slider = tab.get_by_role("slider", name="Moment")
    expect(slider).to_have_attribute("aria-valuetext", re.compile("^now, "))
    box = slider.bounding_box()
    assert box is not None
    slider.click(position={"x": box["width"] / 2, "y": box["height"] / 2})
    tab.wait_for_url(re.compile(r"[?&]at="))
    assert asked(tab) == pytest.approx((machine.begins + machine.ts) / 2, abs=0.02 * TICKS * TICK_S)
    # Before the hog: nothing is unusual, and the crosshair is at that moment.
    expect(tab.get_by_role("heading", level=1)).not_to_contain_text("Now")
    expect(processes(tab).filter(has_text=HOG)).not_to_contain_text("culprit")
    drawn(tab, "")
    before = asked(tab)
    slider.press("ArrowRight")
    until(tab, lambda: asked(tab) != before)
    assert asked(tab) == pytest.approx(before + TICK_S, abs=0.6)
    slider.press("End")
    expect(tab.get_by_role("heading", level=1)).to_contain_text("Now")


def test_a_moment_is_typed_or_picked_in_the_chart(page: Served, tab: Page, machine: Machine) -> None:
    tab.goto(page.url)
    drawn(tab, "cpu_user_ratio")
    over = tab.locator("laggard-chart .u-over")
    box = over.bounding_box()
    assert box is not None
    tab.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 30)
    expect(tab.locator(".chart-tip")).to_be_visible()
    tab.mouse.click(box["x"] + box["width"] * 0.25, box["y"] + 30)
    tab.wait_for_url(re.compile(r"[?&]at="))
    assert asked(tab) == pytest.approx(machine.begins + 0.25 * TICKS, abs=0.03 * TICKS)

    # A stretch that is dragged is shown, and told in the address; the moment stays.
    at = params(tab)["at"]
    drawn(tab, "")
    tab.mouse.move(box["x"] + box["width"] * 0.2, box["y"] + 40)
    tab.mouse.down()
    tab.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 40, steps=4)
    tab.mouse.up()
    tab.wait_for_url(re.compile(r"[?&]from="))
    assert params(tab)["at"] == at
    span = float(params(tab)["to"]) - float(params(tab)["from"])
    assert span < 0.6 * TICKS * TICK_S
    tab.get_by_role("button", name="Zoom out").click()
    until(tab, lambda: float(params(tab)["to"]) - float(params(tab)["from"]) > span)
    tab.get_by_role("button", name="Reset").click()
    until(tab, lambda: "from" not in params(tab))

    typed = tab.get_by_label("Moment, in your time zone")
    typed.fill(datetime.fromtimestamp(machine.ts - 2, ZoneInfo("Europe/Berlin")).strftime("%Y-%m-%dT%H:%M:%S"))
    typed.press("Enter")
    expect(chosen(tab)).to_contain_text(HOG)


def test_two_moments_are_compared(page: Served, tab: Page, machine: Machine) -> None:
    tab.goto(page.url)
    expect(chosen(tab)).to_contain_text(HOG)
    tab.get_by_role("button", name="Compare").click()
    tab.get_by_role("link", name="a minute before").click()
    expect(tab.get_by_role("heading", name="Differences")).to_be_visible()
    assert float(params(tab)["at"]) - float(params(tab)["compare"]) == pytest.approx(60.0)
    grid = tab.get_by_role("grid", name="Processes, the largest difference first")
    first = grid.locator("tbody tr:not(.now-host)").first
    expect(first).to_contain_text(HOG)
    first.click()
    row = tab.get_by_role("grid", name="Features, the largest difference first").locator("tbody tr").first
    expect(row).to_contain_text("cpu_user_ratio")
    expect(row).to_contain_text("97 %")
    drawn(tab, "cpu_user_ratio")
    tab.get_by_role("link", name="Swap").click()
    until(tab, lambda: asked(tab) < float(params(tab)["compare"]))
    tab.get_by_role("button", name="Stop comparing").click()
    expect(tab.get_by_role("heading", name="Processes")).to_be_visible()
    assert "compare" not in params(tab)


def test_a_note_of_a_mark_is_stored_verbatim_and_shown_as_text(page: Served, tab: Page) -> None:
    note = f'{IMAGE}{SCRIPT} & "slow"'
    tab.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
    tab.goto(page.url)
    expect(chosen(tab)).to_contain_text(HOG)
    tab.get_by_role("button", name="Why is it slow?").click()
    dialog = tab.get_by_role("dialog", name="Why is it slow?")
    dialog.get_by_label("What is slow?").fill(note)
    dialog.get_by_role("button", name="Mark", exact=True).click()
    expect(dialog).to_be_hidden()
    tab.wait_for_url(re.compile(r"[?&]at="))
    expect(tab.get_by_role("heading", level=1)).not_to_contain_text("Now")
    expect(chosen(tab)).to_contain_text(HOG)
    (mark,) = page.client.get("/api/v1/marks").json()["marks"]
    assert mark["note"] == note
    tab.get_by_role("button", name="Marks").click()
    events = tab.get_by_role("group", name="Marks and incidents")
    expect(events).to_contain_text(note)
    assert tab.locator("main script, main img").count() == 0
    tab.keyboard.press("Escape")
    expect(events).to_be_hidden()
    # What is marked in the past is marked there.
    tab.keyboard.press("[")
    until(tab, lambda: asked(tab) < mark["ts"] - 0.5)
    before = asked(tab)
    expect(tab.get_by_role("heading", level=1)).to_contain_text(clock(tab, before))
    tab.keyboard.press("m")
    tab.keyboard.press("Enter")
    expect(dialog).to_be_hidden()
    marks = page.client.get("/api/v1/marks").json()["marks"]
    assert min(each["ts"] for each in marks) == pytest.approx(before, abs=0.01)


def test_what_is_new_comes_by_itself_and_leaves_the_choice(
    made: tuple[Path, Machine], tmp_path: Path, serve: Serve, tab: Page
) -> None:
    machine = Machine(12)
    page = serve(tmp_path / "bus.db")
    bus: Bus = page.reading.bus
    bus.create(Topics().specs())
    page.reading.clock = lambda: machine.ts + 0.2
    # Nothing is there: the page says what to do, and follows when something is.
    tab.goto(page.url)
    expect(tab.get_by_role("heading", name="No data yet")).to_be_visible()
    expect(tab.get_by_text("laggard up")).to_be_visible()
    bus.append([record for _ in range(TICKS - 20) for record in machine.tick()])
    expect(processes(tab)).to_have_count(13)
    other = processes(tab).filter(has_text="worker-6")
    other.click()
    expect(other).to_be_focused()
    for _ in range(4):
        bus.append(machine.tick(hog=True, busy="worker-2"))
    expect(processes(tab).filter(has_text=HOG)).to_contain_text("culprit")
    expect(chosen(tab)).to_contain_text("worker-6")
    expect(other).to_be_focused()
    expect(tab.locator(".now-features h2")).to_contain_text("worker-6")
    # A moment that was asked for stays, whatever comes.
    with tab.expect_response(re.compile(r"/moment\?.*\bat=")):  # until then the heading has the time that was asked for
        tab.keyboard.press("[")
    tab.wait_for_url(re.compile(r"[?&]at="))
    heading = tab.get_by_role("heading", level=1)
    expect(heading).not_to_contain_text("Now")
    tab.evaluate("() => new Promise((next) => requestAnimationFrame(() => setTimeout(next)))")
    told = heading.inner_text()
    for _ in range(3):
        bus.append(machine.tick(hog=True))
    tab.wait_for_timeout(2500)
    assert heading.inner_text() == told


def test_a_moment_outside_of_the_history_says_from_when_to_when_it_is(
    page: Served, tab: Page, machine: Machine, expects: Callable[[str], None]
) -> None:
    expects(r"GET /api/v1/moment.*: 404")
    tab.goto(f"{page.url}/?at={machine.begins - 86400}")
    expect(tab.get_by_text("The history covers")).to_contain_text(clock(tab, machine.begins + TICK_S))
    tab.get_by_role("link", name="Show now").click()
    expect(chosen(tab)).to_contain_text(HOG)


def test_five_hundred_processes_are_no_burden(tmp_path: Path, serve: Serve, tab: Page) -> None:
    machine = make_bus(tmp_path / "bus.db", 500, 60)
    page = at_end(serve(tmp_path / "bus.db"), machine.ts)
    tab.goto(page.url)
    expect(processes(tab)).to_have_count(100)
    tab.get_by_role("button", name="Show all 500").click()
    expect(processes(tab)).to_have_count(501)
    tab.keyboard.press("/")
    tab.keyboard.type("worker-495")
    expect(processes(tab)).to_have_count(1)


def test_any_host_is_chosen(tmp_path: Path, serve: Serve, tab: Page) -> None:
    machines = [Machine(6, 60, host) for host in ("alpha", "<i>beta</i>")]
    with EmbeddedBus(tmp_path / "bus.db") as bus:
        bus.create(Topics().specs())
        bus.append([record for machine in machines for _ in range(60) for record in machine.tick()])
    page = at_end(serve(tmp_path / "bus.db"), machines[0].ts)  # for web-1, which is not watched
    tab.goto(page.url)
    expect(tab.get_by_role("heading", level=1)).to_contain_text("on <i>beta</i>")
    expect(processes(tab)).to_have_count(7)
    tab.get_by_role("combobox", name="Host").select_option("alpha")
    expect(tab.get_by_role("heading", level=1)).to_contain_text("on alpha")
    expect(processes(tab)).to_have_count(7)
    assert params(tab) == {"host": "alpha"}
    tab.get_by_role("navigation", name="Views").get_by_role("link", name="Incidents").click()
    assert params(tab) == {"host": "alpha"}


def test_who_may_only_read_is_not_asked_to_mark(
    made: tuple[Path, Machine], tmp_path: Path, serve: Serve, tab: Page, expects: Callable[[str], None]
) -> None:
    path, machine = made
    shutil.copy(path, tmp_path / "bus.db")
    expects("GET /api/v1/cluster: 401")
    page = serve(tmp_path / "bus.db", serve_token="w" * 32, serve_read_token="r" * 32)
    page.reading.clock = lambda: machine.ts + 0.2
    tab.goto(page.url)
    tab.get_by_label("Token").fill("r" * 32)
    tab.get_by_role("button", name="Open").click()
    expect(chosen(tab)).to_contain_text(HOG)
    expect(tab.get_by_role("button", name="Why is it slow?")).to_have_count(0)
    tab.keyboard.press("m")
    expect(tab.get_by_role("dialog")).to_have_count(0)


def test_a_silent_host_is_called_so(page: Served, tab: Page, machine: Machine) -> None:
    page.reading.clock = lambda: machine.ts + 600.0
    tab.goto(page.url)
    expect(tab.get_by_label("Findings")).to_contain_text("for 10 min")


def test_it_is_narrow_and_dark(page: Served, new_tab: NewTab) -> None:
    tab = new_tab(viewport=NARROW, color_scheme="dark")
    tab.goto(page.url)
    expect(chosen(tab)).to_contain_text(HOG)
    drawn(tab, "cpu_user_ratio")
    assert tab.evaluate("document.documentElement.scrollWidth") == NARROW["width"]
    tops = tab.evaluate(
        "['.now-times', '.now-findings', '.now-ranking', '.now-features', '.now-series']"
        ".map((each) => document.querySelector(each).getBoundingClientRect().top)"
    )
    assert tops == sorted(tops)
    for name in ("Compare", "Marks"):
        tab.get_by_role("button", name=name).click()
        menu = tab.locator(":popover-open")
        box = menu.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= NARROW["width"]
        tab.keyboard.press("Escape")


def test_all_is_on_one_screen_at_1280(page: Served, tab: Page) -> None:
    tab.goto(page.url)
    drawn(tab, "cpu_user_ratio")
    assert tab.evaluate("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]") == [1280, 800]
    box = tab.locator("laggard-chart").bounding_box()
    assert box is not None
    assert box["height"] > 100


def test_light_or_dark_is_chosen_and_kept(page: Served, tab: Page) -> None:
    def back() -> str:
        found: str = tab.evaluate("getComputedStyle(document.body).backgroundColor")
        return found

    tab.goto(page.url)
    drawn(tab, "cpu_user_ratio")
    light = back()
    line = tab.evaluate("document.querySelector('laggard-chart').plot.series[1].stroke()")
    tab.get_by_label("Colors").select_option("Dark")
    assert back() != light
    assert tab.evaluate("document.querySelector('laggard-chart').plot.series[1].stroke()") != line
    dark = back()
    tab.reload()
    expect(tab.get_by_label("Colors")).to_have_value("dark")
    assert back() == dark
    tab.get_by_label("Colors").select_option("Auto")
    assert back() == light


def test_the_focus_follows_to_the_view_that_was_opened(page: Served, tab: Page) -> None:
    tab.goto(page.url)
    expect(chosen(tab)).to_contain_text(HOG)
    tab.get_by_role("navigation", name="Views").get_by_role("link", name="Incidents").click()
    expect(tab.get_by_role("heading", level=1)).to_be_focused()
    tab.go_back()
    expect(tab.get_by_role("heading", level=1)).to_be_focused()
    expect(tab.get_by_role("heading", level=1)).to_contain_text("Now")
    # What the view before listened to is gone with it: the key is heard once.
    tab.keyboard.press("?")
    expect(tab.get_by_role("dialog", name="Keys")).to_be_visible()


def test_rows_that_are_no_processes(tab: Page, serve: Serve, tmp_path: Path) -> None:
    path, layout, random = (
        tmp_path / "bus.db",
        make_layout(("store",), ("store",), ("open_ratio",)),
        np.random.default_rng(1),
    )
    begin = time.time() - 200 * 30.0
    with EmbeddedBus(path) as bus:
        bus.create(Topics().specs())
        for tick in range(200):
            ratio = random.normal(0.99, 0.002) * (0.6 if tick >= 190 else 1.0)
            frame = Frame("host", "shop-1", "branch", begin + 30.0 * tick, tick, layout, np.array([[ratio]]))
            bus.append([Outgoing(Topics().name(COUNTERS), frame.key, encode(frame), frame.ts)])
    page = at_end(serve(path), begin + 199 * 30.0)
    tab.goto(f"{page.url}/?host=shop-1")
    expect(tab.get_by_role("heading", name="Rows: branch")).to_be_visible()
    grid = tab.get_by_role("grid", name="Rows: branch")
    expect(grid.get_by_role("columnheader", name="PID")).to_have_count(0)
    expect(grid.locator("tbody tr")).to_contain_text(["store"])
    expect(tab.get_by_role("heading", name="open_ratio of store")).to_be_visible()
