"""Incidents in a real browser: from the list, or an alert's link, to what a colleague is sent."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from laggard.pipeline.core.bus import Outgoing
from laggard.pipeline.core.engine.publishing import outgoing, outgoing_diagnosis
from laggard.pipeline.core.records import Decoder, Feedback, encode
from laggard.pipeline.core.topics import COUNTERS, DIAGNOSES, REQUESTS
from tests.browser.conftest import NARROW
from tests.pipeline.investigator.troubles import (
    HOG,
    HOSTILE,
    RECORDS,
    T0,
    TOPICS,
    anomaly,
    ended,
    joined,
    looked_into,
    marked,
)
from tests.pipeline.methods.diagnoses.conftest import UNTRUSTWORTHY
from tests.pipeline.methods.incidents.joined import notice
from tests.pipeline.methods.requests.told import outlying

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Page

    from tests.browser.conftest import NewTab, Serve
    from tests.pipeline.investigator.serving import Served

    Expects = Callable[[str], None]

pytestmark = pytest.mark.slow

STRANGE = anomaly(5000, HOSTILE, key="a<b>", keyed_by="pool", scope="member", operator="covariance")
OPEN, OPEN_RECORDS = joined(STRANGE)
UNSEEN = "GET .*/api/v1/(series|compare).*404"
"""Of a host whose frames are not there any more nothing is drawn, and the browser tells so in its console."""


@pytest.fixture
def page(tmp_path: Path, serve: Serve) -> Served:
    page = serve(tmp_path / "bus.db")
    page.reading.clock = lambda: T0 + 5100.0
    page.reading.bus.append([marked(130, HOSTILE), *RECORDS, *OPEN_RECORDS])
    page.reading.bus.append([looked_into(30, "hog[41@7]", "hog")[1]])
    return page


def test_the_list_leads_to_one_and_its_filters_are_in_the_address(page: Served, tab: Page, expects: Expects) -> None:
    expects(UNSEEN)
    tab.goto(f"{page.url}/incidents")
    titles = tab.locator(".incidents-item h2")
    expect(titles).to_have_count(2)
    expect(titles.nth(0)).to_contain_text(f"open pool a<b>: {HOSTILE[:30]}")
    expect(titles.nth(1)).to_contain_text("closed web-1: hog")
    tab.get_by_label("open only").check()
    expect(titles).to_have_count(1)
    expect(tab).to_have_url(re.compile(r"open=1"))
    tab.get_by_label("open only").uncheck()
    tab.get_by_role("combobox", name="Subject").select_option(label="web-1")
    expect(titles).to_have_count(1)
    expect(tab).to_have_url(re.compile(r"host=web-1"))
    tab.get_by_role("link", name="web-1: hog").click()
    expect(tab.get_by_role("heading", level=1)).to_have_text("closed web-1: hog")
    tab.go_back()
    expect(titles).to_have_count(1)


def test_notices_are_there_where_they_are_asked_for(page: Served, tab: Page) -> None:
    opened, over = notice(1, T0 + 4000.0, sentence=HOSTILE), notice(1, T0 + 4000.0, "ended")
    page.reading.bus.append([outgoing(each, TOPICS) for each in (opened, over, notice(2, T0 + 5000.0))])
    tab.goto(f"{page.url}/incidents")
    expect(tab.locator(".incidents-item h2")).to_have_count(2)
    shown = tab.get_by_role("region", name="Notices")
    expect(shown).to_have_count(0)
    tab.get_by_label("include notices of hosts").check()
    expect(shown.locator("p")).to_have_count(2)
    expect(shown.locator("p").nth(0)).to_contain_text("n2 open")
    expect(shown.locator("p").nth(1)).to_contain_text("n1 for 90 s")
    expect(shown.locator("p").nth(1)).to_contain_text(HOSTILE[:20])
    tab.get_by_label("open only").check()
    expect(shown.locator("p")).to_have_count(1)
    expect(tab).to_have_url(re.compile(r"notices=1"))
    expect(shown.get_by_role("link")).to_have_attribute("href", re.compile(rf"host=n2.*at={T0 + 5000.0:.0f}"))


def test_one_shows_what_was_seen_told_and_done(page: Served, tab: Page, expects: Expects) -> None:
    expects(UNSEEN)
    tab.goto(f"{page.url}/incidents?id={HOG.id[:8]}")
    expect(
        tab.get_by_role("img", name=re.compile(r"2 operators detected it, with 5 reports; 1 marks; 1 prof"))
    ).to_be_visible()
    tab.get_by_text("Reports as a table").click()
    rows = tab.get_by_role("region", name="Reports").locator("tbody tr")
    expect(rows).to_have_count(6)
    expect(rows.nth(1)).to_contain_text(re.compile(r"cpu\s*opened\s*1\.50"))
    ranking = tab.get_by_role("region", name="Ranking of gaussian, process").locator("tbody tr").first
    expect(ranking).to_contain_text(re.compile(r"hog\s*3\.00\s*cpu_user_ratio\s*97 %\s*10 % ± 5 %\s*17\.0"))
    expect(ranking.get_by_role("link", name="hog")).to_have_attribute(
        "href", re.compile(rf"^/\?host=web-1&at={T0 + 120:.0f}&row=hog%5B41%407%5D&feature=cpu_user_ratio$")
    )
    phases = tab.get_by_role("region", name="Phases of hog").first.locator("tbody tr")
    expect(phases).to_have_count(3)
    expect(phases.nth(1)).to_contain_text("2: dip")
    tab.get_by_role("button", name="Zoom in").click()
    expect(tab).to_have_url(re.compile(r"from=\d+&to=\d+"))
    tab.get_by_role("button", name="Reset").click()
    expect(tab).not_to_have_url(re.compile(r"from="))


def test_an_application_has_what_its_traced_requests_waited_for(page: Served, tab: Page) -> None:
    late_s, bus = 5_600.0, page.reading.bus
    page.reading.clock = lambda: T0 + 6_000.0
    slow = anomaly(late_s, "web-1", "regression", key="wordpress", keyed_by="application", scope="performance")
    (of_model,), records = joined(slow)
    bus.append(records)
    for request, output in outlying(begin=T0 + late_s):
        bus.append([Outgoing(TOPICS.name(REQUESTS), request.service, encode(request), request.ts)])
        bus.append([outgoing(output, TOPICS)])
    tab.goto(f"{page.url}/incidents?id={of_model.id}")
    card = tab.locator("section.card", has=tab.get_by_role("heading", name="Traced requests"))
    expect(card.get_by_role("listitem").last).to_contain_text("10 of them: waits for a lock held by worker")
    more = card.get_by_role("link", name="more at the onset")
    expect(more).to_have_attribute("href", re.compile(rf"^/requests\?service=wordpress&at={T0 + late_s:.0f}$"))


def test_a_flame_graph_is_walked_through_by_keys_and_clicks(page: Served, tab: Page, expects: Expects) -> None:
    expects(UNSEEN)
    tab.goto(f"{page.url}/incidents?id={HOG.id}")
    expect(tab.get_by_role("tree", name="Flame graph of hog, running, 270 samples")).to_be_visible()
    boxes = tab.get_by_role("treeitem")
    expect(boxes).to_have_count(10)
    boxes.first.focus()
    tab.keyboard.press("ArrowUp")
    focused = tab.locator(":focus")
    expect(focused).to_have_attribute("aria-label", "run_forever (hot.py): 135 samples, 50 %")
    tab.keyboard.press("ArrowRight")
    expect(focused).to_have_attribute("aria-level", "2")
    tab.keyboard.press("Enter")
    expect(tab).to_have_url(re.compile(r"zoom=\d+"))
    expect(boxes).to_have_count(5)
    expect(tab.get_by_text("Zoomed to run_forever (hot.py), 50 % of 270 samples.")).to_be_visible()
    tab.reload()
    expect(boxes).to_have_count(5)
    boxes.last.focus()
    tab.keyboard.press("Escape")
    expect(boxes).to_have_count(10)
    tab.get_by_role("searchbox", name="Search").fill("PARSE")
    expect(tab.get_by_text("2 boxes match, 33 % of the samples.")).to_be_visible()
    tab.get_by_role("combobox", name="Thread", exact=True).select_option(label="worker (26812)")
    expect(boxes).to_have_count(5)
    tab.get_by_role("combobox", name="Thread state").select_option("blocked")
    expect(tab.get_by_text("No samples of blocked threads.")).to_be_visible()
    tab.get_by_role("combobox", name="Thread", exact=True).select_option("")
    expect(tab.get_by_role("treeitem", name=re.compile("futex_do_wait"))).to_be_visible()
    tab.get_by_role("treeitem", name=re.compile("futex_do_wait")).click()
    expect(tab.get_by_role("button", name="Show all")).to_be_visible()


def test_it_is_copied_as_markdown_and_as_a_link(page: Served, new_tab: NewTab, expects: Expects) -> None:
    expects(UNSEEN)
    tab = new_tab(permissions=["clipboard-read", "clipboard-write"])
    tab.goto(f"{page.url}/incidents?id={HOG.id[:8]}&from={T0:.0f}&to={T0 + 60:.0f}")
    tab.get_by_role("button", name="Copy as Markdown").click()
    expect(tab.get_by_text("Copied to the clipboard: the incident as Markdown")).to_be_visible()
    text = tab.evaluate("navigator.clipboard.readText()")
    assert text.startswith("## Incident on `web-1`: closed\n")
    link = f"{page.url}/incidents?id={HOG.id}&from={T0:.0f}&to={T0 + 60:.0f}"
    assert f"- Page: <{link}>\n" in text
    tab.get_by_role("button", name="Copy link").click()
    expect(tab.get_by_text("Copied to the clipboard: the link")).to_be_visible()
    assert tab.evaluate("navigator.clipboard.readText()") == link


def test_a_person_says_that_it_is_none_or_expected_and_takes_it_back(page: Served, tab: Page, expects: Expects) -> None:
    expects(UNSEEN)
    expects("POST .*/feedback: 400")
    tab.goto(f"{page.url}/incidents?id={HOG.id}")
    tab.get_by_label("Reason").fill("month end")
    tab.get_by_role("button", name="Not an anomaly").click()
    expect(tab.get_by_text("hog is usual. month end")).to_be_visible()
    tab.get_by_role("button", name="Withdraw").click()
    expect(tab.get_by_text("(no longer in effect)")).to_be_visible()
    tab.get_by_role("textbox", name="until").fill("2027-03-01T18:00")
    tab.get_by_role("button", name="Expected until then").click()
    expect(tab.get_by_text("hog is expected until 2027-03-01 17:00:00 UTC.")).to_be_visible()
    tab.get_by_role("textbox", name="until").fill("")
    tab.get_by_role("button", name="Expected until then").click()
    expect(tab.get_by_text("field 'until' is 0.0; expected a time after")).to_be_visible()
    (partition,) = page.reading.bus.partitions(TOPICS.name(COUNTERS))
    decoder = Decoder()
    said = [decoder.decode(each.value, "here") for each in page.reading.bus.read(partition, 0)]
    assert [(each.says, each.note) for each in said if isinstance(each, Feedback)] == [
        ("usual", "month end"),
        ("withdrawn", ""),
        ("expected", ""),
    ]


def test_where_a_browser_does_not_let_it_copy_the_text_is_there_to_be_copied(
    page: Served, tab: Page, expects: Expects
) -> None:
    expects(UNSEEN)
    tab.add_init_script("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    tab.goto(f"{page.url}/incidents?id={HOG.id}")
    tab.get_by_role("button", name="Copy link").click()
    field = tab.get_by_label("The browser blocks access to the clipboard.")
    expect(field).to_have_value(f"{page.url}/incidents?id={HOG.id}")
    expect(field).to_be_focused()
    assert tab.evaluate("document.activeElement.selectionEnd - document.activeElement.selectionStart") > 50
    tab.get_by_role("button", name="Close", exact=True).click()
    expect(field).not_to_be_attached()


def test_an_alert_leads_to_the_incident_and_to_the_list_where_there_are_several(
    page: Served, tab: Page, expects: Expects
) -> None:
    expects(UNSEEN)
    with tab.expect_response(re.compile(UNSEEN.removeprefix("GET ").removesuffix(".*404"))):
        tab.goto(f"{page.url}/incidents?host=web-1&at={T0:.0f}")
    expect(tab).to_have_url(re.compile(f"id={HOG.id}"))
    expect(tab.get_by_role("heading", level=1)).to_have_text("closed web-1: hog")
    _, records = joined(anomaly(10, "dd", feature="io_write_bytes_per_s", resources=("disk",)))
    page.reading.bus.append(records)
    tab.goto(f"{page.url}/incidents?host=web-1&at={T0 + 100:.0f}")
    expect(tab.locator(".incidents-item")).to_have_count(2)
    tab.goto(f"{page.url}/incidents?host=web-1&at=now")
    expect(tab.get_by_role("heading", level=1)).to_have_text("Incidents")


def test_what_closes_is_seen_to_close(page: Served, tab: Page) -> None:
    tab.goto(f"{page.url}/incidents?id={OPEN[-1].id}")
    title = tab.get_by_role("heading", level=1)
    expect(title).to_have_text(re.compile("^open pool"))
    _, records = joined(STRANGE, ended(STRANGE, 5050))
    page.reading.bus.append(records[2:])
    expect(title).to_have_text(re.compile("^closed pool"))


def test_whatever_a_process_calls_itself_is_text(page: Served, new_tab: NewTab, expects: Expects) -> None:
    expects(UNSEEN)
    page.reading.bus.append([looked_into(10, "x", HOSTILE, id="0" * 36, reason=HOSTILE, notes=(HOSTILE,))[1]])
    bad = UNTRUSTWORTHY.phases[0].threads
    told, _ = looked_into(10, "hog[41@7]", HOSTILE)
    first = told.phases[0]
    hostile = replace(told, id="1" * 36, phases=(replace(first, threads=bad),))
    page.reading.bus.append([outgoing_diagnosis(hostile, TOPICS.name(DIAGNOSES))])
    tab = new_tab(viewport=NARROW, color_scheme="dark")
    tab.goto(f"{page.url}/incidents?id={HOG.id}&diagnosis={'1' * 36}")
    expect(tab.get_by_role("tree")).to_be_visible()
    tab.get_by_text("Reports as a table").click()
    expect(tab.get_by_role("region", name="Reports")).to_contain_text(HOSTILE)
    tab.goto(f"{page.url}/incidents?id={OPEN[-1].id}")
    expect(tab.get_by_role("heading", level=1)).to_contain_text(HOSTILE)
    assert tab.locator("main img, main script").count() == 0
    assert tab.evaluate("document.documentElement.scrollWidth") <= NARROW["width"], "nothing is wider than the page"


def test_an_empty_bus_says_what_to_do_next_and_what_is_not_there_is_named(
    tmp_path: Path, serve: Serve, tab: Page, expects: Expects
) -> None:
    expects("GET .*/api/v1/incident\\?id=nothing.*404")
    page = serve(tmp_path / "bus.db")
    tab.goto(f"{page.url}/incidents")
    expect(tab.get_by_text("laggard up")).to_be_visible()
    tab.goto(f"{page.url}/incidents?id=nothing")
    expect(tab.get_by_text("no incident has an id that begins with 'nothing'")).to_be_visible()


def test_of_a_host_that_is_recorded_it_is_drawn_and_told_what_changed(seen_world: Served, tab: Page) -> None:
    tab.goto(f"{seen_world.url}/incidents?host=db-1&range=7d")
    tab.locator(".incidents-item a").last.click()
    expect(tab.locator("laggard-chart canvas")).to_be_visible()
    changed = tab.get_by_role("region", name="Changes")
    expect(changed.get_by_role("link", name="postgres")).to_be_visible()
    tab.get_by_role("link", name="All differences").click()
    expect(tab).to_have_url(re.compile(r"/\?host=db-1&at=[\d.]+&compare=[\d.]+"))
