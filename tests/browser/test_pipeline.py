"""The pipeline in a real browser: what is behind, and a dead letter that is inspected and replayed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import NARROW
from tests.pipeline.investigator.behind import FRAMES, HOST, OPERATORS, WAITING, begun, work

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Page

    from tests.browser.conftest import NewTab, Serve
    from tests.pipeline.investigator.serving import Served

pytestmark = pytest.mark.slow

JUNK = f"laggard.counters[0]@{FRAMES + 1}"


@pytest.fixture
def page(tmp_path: Path, serve: Serve) -> Served:
    begun(tmp_path / "bus.db")
    return serve(tmp_path / "bus.db", state=str(tmp_path), operators=OPERATORS)


def test_what_is_behind_is_told_live(page: Served, tab: Page) -> None:
    tab.goto(f"{page.url}/pipeline")
    row = tab.get_by_role("region", name="Tasks").get_by_role("row", name=re.compile("^gaussian"))
    cells = row.get_by_role("cell")
    expect(cells.nth(3)).to_have_text(str(WAITING))
    expect(tab.locator(".pipeline-numbers dd").first).to_contain_text(str(2 * WAITING))
    expect(tab.get_by_text("none on this machine")).to_be_visible()
    topics = tab.get_by_role("region", name="Topics")
    expect(topics.get_by_role("row", name=re.compile("^laggard.counters "))).to_contain_text("frames of a host")
    # What is processed meanwhile is told without asking: another record comes, and with it the news.
    work(page.reading.bus)
    answer = page.client.post("/api/v1/marks", json={"host": HOST, "note": "slow"})
    assert answer.status_code == 201
    expect(cells.nth(3)).to_have_text("1")


def test_a_dead_letter_is_inspected_and_replayed_once(page: Served, tab: Page) -> None:
    tab.goto(f"{page.url}/pipeline")
    row = tab.get_by_role("region", name="Dead letters").get_by_role("row").filter(has_text=JUNK)
    expect(row).to_have_count(1)
    row.get_by_role("link", name="gaussian").click()
    expect(tab.get_by_role("heading", name=JUNK)).to_be_visible()
    expect(tab.get_by_role("region", name="As text")).to_have_text("junk \ufffd<script>alert(1)</script>")
    expect(tab.get_by_role("region", name="In hexadecimal digits")).to_contain_text("00000000  6a 75 6e 6b")
    expect(tab.get_by_text("sent-by: <b>somebody</b>")).to_be_visible()
    again = tab.get_by_role("button", name="Replay")
    # Nothing is sent before it is confirmed.
    again.click()
    tab.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    (partition,) = page.reading.bus.partitions("laggard.counters")
    end = page.reading.bus.bounds(partition)[1]
    again.click()
    tab.get_by_role("dialog").get_by_role("button", name="Replay", exact=True).click()
    expect(tab.get_by_text("; not rejected again.")).to_be_visible()
    expect(again).to_have_count(0)
    assert page.reading.bus.bounds(partition)[1] == end + 1
    # What was wrong still is.
    work(page.reading.bus)
    again = tab.get_by_text("; rejected again as")
    expect(again).to_be_visible()
    again.get_by_role("link").click()
    expect(tab.get_by_role("heading", name=f"laggard.counters[0]@{end}")).to_be_visible()
    expect(tab.get_by_text(f"Replay of {JUNK}, rejected again.")).to_be_visible()


def test_cost_has_a_series(page: Served, new_tab: NewTab) -> None:
    tab = new_tab(viewport=NARROW, color_scheme="dark")
    tab.goto(f"{page.url}/pipeline")
    cost = tab.get_by_role("region", name="Cost").last
    expect(cost.get_by_role("row", name=re.compile("laggard-agent"))).to_be_visible()
    expect(cost.get_by_role("row", name=re.compile("laggard-reader"))).to_be_visible()
    cost.get_by_role("link", name=re.compile(r"memory_rss_bytes of laggard-worker\[8@1\] over time")).click()
    expect(tab.get_by_role("img", name="memory_rss_bytes of laggard-worker[8@1] over time")).to_be_visible()
    assert tab.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]


def test_a_reader_cannot_replay(tmp_path: Path, serve: Serve, tab: Page, expects: Callable[[str], None]) -> None:
    expects("GET /api/v1/cluster: 401")
    begun(tmp_path / "bus.db")
    token = "a-token-for-readers-of-32-letters"
    page = serve(tmp_path / "bus.db", state=str(tmp_path), operators=OPERATORS, serve_read_token=token)
    tab.goto(f"{page.url}/pipeline?letter=0@0")
    tab.get_by_label("Token").fill(token)
    tab.get_by_role("button", name="Open").click()
    expect(tab.get_by_text("Replaying requires write access.")).to_be_visible()
    expect(tab.get_by_role("button", name="Replay")).to_have_count(0)
