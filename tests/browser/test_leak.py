"""A page that stays open holds no more of the browser after many news than after some."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest
from playwright.sync_api import expect

from laggard.pipeline.bus import Outgoing
from laggard.pipeline.records import Decoder, Frame, encode
from laggard.pipeline.topics import COUNTERS
from tests.browser.measures import held
from tests.browser.world import ENDS, HOST, served_world
from tests.grafana.scene import TOPICS

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page

    from tests.pipeline.investigator.serving import Served

FIRST: Final = 40
NEWS: Final = 200


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


@pytest.mark.slow
def test_a_page_on_live_news_does_not_grow(
    world: Path, tab: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
            news = [replace(each, ts=each.ts + number, sequence=each.sequence + number) for each in frames]
            page.reading.clock = lambda: ENDS + number
            with tab.expect_response(lambda response: "/api/v1/series" in response.url):
                page.reading.bus.append([Outgoing(TOPICS.name(COUNTERS), HOST, encode(each), each.ts) for each in news])
            tab.clock.fast_forward(1000)

        for number in range(1, FIRST):
            hear(number)
        before = held(session)
        for number in range(FIRST, FIRST + NEWS):
            hear(number)
        after = held(session)
        assert after.nodes < before.nodes + 200
        assert after.listeners <= before.listeners + 10
        assert after.heap_bytes < before.heap_bytes + 1e6
        tab.context.close()
