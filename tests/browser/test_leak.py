"""A page that stays open holds no more of the browser after many news than after some."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest
from playwright.sync_api import expect

from laggard.pipeline.core.bus import Outgoing
from laggard.pipeline.core.records import Decoder, Frame, encode, make_layout
from laggard.pipeline.core.topics import COUNTERS
from tests.browser.measures import Held, held
from tests.browser.world import ENDS, HOST, served_world
from tests.grafana.scene import TOPICS

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page

    from tests.pipeline.investigator.serving import Served

pytestmark = pytest.mark.slow

COME_AND_GO: Final = 5


class Most(NamedTuple):
    """What a page may hold more after a number of further news."""

    news: int
    nodes: float
    listeners: float
    heap_bytes: float


def last_frames(page: Served) -> list[Frame]:
    """Of each scope the newest of the host."""
    partition = page.reading.bus.partition_of(TOPICS.name(COUNTERS), HOST)
    decoder = Decoder()
    end = page.reading.bus.bounds(partition)[1]
    frames: dict[str, Frame] = {}
    for record in page.reading.bus.read(partition, end - 60):
        received = decoder.decode(record.value, "") if record.key == HOST else None
        if isinstance(received, Frame):
            frames[received.scope] = received
    return list(frames.values())


def later(frame: Frame, number: int) -> Frame:
    """The frame some seconds later; every second time a few of its processes are gone."""
    if frame.scope == "process" and number % 2:
        kept = frame.layout
        layout = make_layout(kept.rows[:-COME_AND_GO], kept.names[:-COME_AND_GO], kept.features)
        frame = replace(frame, layout=layout, values=frame.values[:-COME_AND_GO])
    return replace(frame, ts=frame.ts + number, sequence=frame.sequence + number)


@pytest.mark.parametrize(
    ("first", "most"),
    [(20, Most(30, 20, 5, 4e5)), pytest.param(80, Most(120, 50, 10, 1e6), marks=pytest.mark.long)],
    ids=["short", "long"],
)
def test_a_page_on_live_news_does_not_grow(  # noqa: PLR0917 - fixtures
    world: Path, tab: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int, most: Most
) -> None:
    # As many as come in hours, in seconds: the server looks more often, and the page's clock is put forward.
    monkeypatch.setattr("laggard.pipeline.investigator.live.EVERY_S", 0.02)
    bus = tmp_path / "bus.db"
    shutil.copy(world, bus)
    tab.clock.install()
    with served_world(bus) as page:
        frames = last_frames(page)
        tab.goto(page.url)
        expect(tab.locator("laggard-chart canvas")).to_be_visible()
        session = tab.context.new_cdp_session(tab)
        session.send("Performance.enable")

        def hear(number: int) -> None:
            come = [later(each, number) for each in frames]
            page.reading.clock = lambda: ENDS + number
            with tab.expect_response(lambda response: "/api/v1/series" in response.url):
                page.reading.bus.append([Outgoing(TOPICS.name(COUNTERS), HOST, encode(each), each.ts) for each in come])
            tab.clock.fast_forward(1000)

        def settled() -> Held:
            tab.wait_for_timeout(500)
            expect(tab.locator("main [aria-busy=true]")).to_have_count(0)
            return held(session)

        for number in range(1, first):
            hear(number)
        before = settled()
        for number in range(first, first + most.news):
            hear(number)
        after = settled()
        assert after.nodes < before.nodes + most.nodes
        assert after.listeners <= before.listeners + most.listeners
        assert after.heap_bytes < before.heap_bytes + most.heap_bytes
        tab.context.close()
