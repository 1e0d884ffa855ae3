"""Requests as a person looks at them: a plane, clusters, a critical path; hostile names stay text."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from laggard.pipeline.core.bus import Outgoing
from laggard.pipeline.core.records import encode
from laggard.pipeline.core.records.outputs import write_output
from laggard.pipeline.core.topics import ANOMALIES, REQUESTS, Topics
from tests.browser.conftest import NARROW
from tests.pipeline.investigator.serving import served
from tests.pipeline.investigator.traced import SECONDS, SERVICE, record, traced
from tests.pipeline.methods.requests.told import normal, outlying

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Locator, Page

    from tests.browser.conftest import NewTab, Serve
    from tests.pipeline.investigator.serving import Served

BEGIN = 1_790_000_000.0
TOPICS = Topics()

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """On 3,000 requests of five minutes. To be read only."""
    path = tmp_path_factory.mktemp("traced") / "bus.db"
    record(path, BEGIN)
    with served(path) as opened:
        opened.reading.clock = lambda: BEGIN + SECONDS
        yield opened


def card(tab: Page, name: str) -> Locator:
    return tab.locator("section").filter(has=tab.get_by_role("heading", name=name, exact=True))


def placed(tab: Page) -> None:
    expect(tab.get_by_text("placed by Isomap")).to_be_visible()


def test_from_a_point_on_the_plane_to_its_critical_path_and_back(page: Served, tab: Page) -> None:
    tab.goto(page.url + "/requests")
    expect(tab.get_by_role("row", name=re.compile("^wordpress 3,000 "))).to_be_visible()
    placed(tab)
    # The slowest of those that wait for the lock, where it is drawn.
    plane = page.client.get("/api/v1/requests/plane", params={"service": SERVICE}).json()
    index = max(range(len(plane["requests"])), key=lambda each: plane["duration_s"][each])
    scatter = tab.locator("laggard-scatter")
    scatter.scroll_into_view_if_needed()
    at = scatter.evaluate("(each, index) => each.placeOf(index)", index)
    scatter.hover(position=at)
    slowest = plane["requests"][index]
    expect(scatter.locator(".requests-tip")).to_have_text(re.compile(rf"^{slowest}: 6\d\d ms, cluster lock sidebar"))
    scatter.click(position=at)
    expect(tab).to_have_url(re.compile(f"request={slowest}&at="))
    expect(tab.get_by_role("heading", level=1)).to_contain_text(slowest)
    drawing = tab.get_by_role("img", name=re.compile("^The critical path: 27 pieces on 3 threads"))
    expect(drawing).to_be_visible()
    expect(drawing.get_by_text(re.compile("^waits for a disk, fsync "))).to_be_visible()
    expect(card(tab, "Longest uses of time").get_by_role("row").nth(1)).to_contain_text("/srv/blog/cache/sidebar")
    tab.get_by_role("link", name="lock sidebar").click()
    expect(tab.get_by_role("heading", name="Cluster lock sidebar")).to_be_visible()
    tab.go_back()
    expect(drawing).to_be_visible()
    tab.get_by_role("link", name="Requests of wordpress").click()
    placed(tab)


def test_a_path_is_zoomed_by_the_keyboard(page: Served, tab: Page) -> None:
    tab.goto(f"{page.url}/requests?service={SERVICE}&request=812-7")
    expect(tab.get_by_text("Not an outlier, as far as is known.")).to_be_visible()
    lanes = tab.locator("laggard-lanes")
    seen = "each => each.window.end - each.window.begin"
    whole = lanes.evaluate(seen)
    lanes.locator("svg.requests-lanes").focus()
    for key in ("+", "+", "ArrowRight"):
        tab.keyboard.press(key)
    assert lanes.evaluate(seen) == pytest.approx(whole / 1.6**2)
    assert lanes.evaluate("each => each.window.begin") == pytest.approx(whole * (0.5 - 0.5 / 1.6**2 + 0.1 / 1.6**2))
    tab.get_by_role("button", name="Show all").click()
    assert lanes.evaluate(seen) == pytest.approx(whole)
    tab.get_by_text("Path as a table").click()
    expect(tab.get_by_role("region", name="Path as a table").get_by_role("row")).to_have_count(26)


def test_a_cluster_is_opened_from_the_key_and_closed(page: Served, tab: Page) -> None:
    tab.goto(page.url + "/requests")
    placed(tab)
    tab.get_by_role("link", name="cluster connect refused").click()
    cluster = card(tab, "Cluster connect refused")
    expect(cluster).to_contain_text("repeats connect() to 127.0.0.1:6379 that is refused")
    expect(cluster.get_by_role("row", name=re.compile("^connect, close "))).to_be_visible()
    timer = cluster.get_by_role("row", name=re.compile("^waits for a timer "))
    bars = timer.locator("svg.requests-pair rect")
    assert float(bars.nth(0).get_attribute("width") or 0) == 96.0
    assert float(bars.nth(1).get_attribute("width") or 0) == 0.0
    cluster.get_by_role("link", name="Close").click()
    expect(cluster).to_be_hidden()


def test_requests_are_filtered_and_the_link_shows_the_same(page: Served, tab: Page, new_tab: NewTab) -> None:
    tab.goto(page.url + "/requests")
    rows = card(tab, "Requests").get_by_role("row")
    expect(rows).to_have_count(26)
    tab.get_by_label("Filter").fill("sidebar")
    tab.get_by_label("Filter").press("Enter")
    told = tab.get_by_text(re.compile(r"^\d+ of 3,000 requests"))
    expect(told).to_be_visible()
    tab.get_by_label("Sort").select_option(label="Newest first")
    expect(tab).to_have_url(re.compile("like=sidebar&sort=newest"))
    other = new_tab()
    other.goto(tab.url)
    expect(other.get_by_text(told.inner_text())).to_be_visible()
    expect(other.get_by_label("Sort")).to_have_value("newest")
    mine, others = (card(each, "Requests").get_by_role("rowheader").all_inner_texts() for each in (tab, other))
    assert mine == others


def test_requests_that_come_are_shown_and_what_is_chosen_stays(tmp_path: Path, serve: Serve, tab: Page) -> None:
    record(tmp_path / "bus.db", BEGIN, seconds=40)
    page = serve(tmp_path / "bus.db")
    page.reading.clock = lambda: BEGIN + 60.0
    tab.goto(page.url + "/requests?only=normal")
    expect(tab.get_by_role("row", name=re.compile("^wordpress 400 "))).to_be_visible()
    placed(tab)
    more = (replace(each, request=f"new-{each.request}") for each in traced(BEGIN + 41.0, 2))
    name = TOPICS.name(REQUESTS)
    page.reading.bus.append([Outgoing(name, each.service, encode(each), each.ts) for each in more])
    expect(tab.get_by_role("row", name=re.compile("^wordpress 420 "))).to_be_visible()
    expect(tab.get_by_text(re.compile("^420 requests"))).to_be_visible()
    expect(tab.get_by_role("combobox", name="Show")).to_have_value("normal")


def test_names_stay_text_and_a_narrow_page_does_not_scroll_sideways(
    tmp_path: Path, serve: Serve, new_tab: NewTab
) -> None:
    hostile = '"><img src=x onerror=alert(1)>\u202e<script>alert(2)</script>'
    page = serve(tmp_path / "bus.db")
    page.reading.clock = lambda: 1700000300.0
    page.reading.bus.create(TOPICS.specs())
    requests = [*normal()]
    for one, output in outlying():
        request = replace(
            one,
            name=hostile,
            request=f"{one.request}{hostile}",
            path=tuple(each._replace(detail=hostile) for each in one.path),
            spent=tuple(each._replace(on=hostile, by=hostile, result=hostile) for each in one.spent),
            threads=tuple(f"{each}{hostile}" for each in one.threads),
            notes=(hostile,),
        )
        requests.append(request)
        told = replace(output, name=hostile, request=request.request, cluster=hostile, cause=hostile)
        value = write_output(told).encode()
        page.reading.bus.append([Outgoing(TOPICS.name(ANOMALIES), told.service, value, told.ts)])
    name = TOPICS.name(REQUESTS)
    page.reading.bus.append([Outgoing(name, each.service, encode(each), each.ts) for each in requests])
    tab = new_tab(viewport=NARROW, color_scheme="dark")
    tab.goto(page.url + "/requests")
    placed(tab)
    shown = hostile.replace("\u202e", "\\u202e")
    tab.get_by_role("link", name=f"cluster {shown}").click()
    expect(tab.get_by_role("heading", name=f"Cluster {shown}")).to_be_visible()
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    tab.get_by_role("link", name=f"r1{shown}").first.click()
    expect(tab.get_by_role("heading", level=1)).to_have_text(f"{shown} r1{shown}")
    expect(tab.locator("laggard-lanes svg")).to_be_visible()
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    assert tab.locator("main img, main script").count() == 0


def test_without_requests_it_is_said_what_to_type(tmp_path: Path, serve: Serve, tab: Page) -> None:
    page = serve(tmp_path / "bus.db")
    tab.goto(page.url + "/requests")
    expect(tab.get_by_role("heading", name="No requests yet")).to_be_visible()
    expect(tab.get_by_text("laggard trace start --php", exact=True)).to_be_visible()
