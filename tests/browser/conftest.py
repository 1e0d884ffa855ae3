"""A real browser for tests of the page."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Protocol

import pytest
from playwright.sync_api import ViewportSize, expect

from tests.browser.chromium import started
from tests.browser.watch import Watch
from tests.browser.world import served_world, shared_world
from tests.pipeline.investigator.serving import served

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, BrowserContext, Page

    from tests.pipeline.investigator.serving import Served

WITHIN_MS = 90_000
"""What a test waits for has to come within this time, on a machine that does much else."""

WIDE = ViewportSize(width=1280, height=800)
NARROW = ViewportSize(width=390, height=844)

expect.set_options(timeout=WITHIN_MS)


class Serve(Protocol):
    """Serves the page on a bus, with settings such as `serve_token="..."`, until the test's tabs are closed."""

    def __call__(self, bus: Path, **given: str) -> Served: ...


class NewTab(Protocol):
    """Opens one more tab, in a context of its own: with no cookies, no storage. Options are `Browser.new_context`'s."""

    def __call__(self, **options: Any) -> Page: ...


@pytest.fixture(scope="session")
def driven() -> Iterator[tuple[Browser, asyncio.AbstractEventLoop]]:
    """Chromium, started once for all, and the event loop that Playwright drives it with."""
    with started() as chromium:
        loop = asyncio.get_running_loop()
        asyncio._set_running_loop(None)
        yield chromium, loop
        asyncio._set_running_loop(loop)


@pytest.fixture
def browser(driven: tuple[Browser, asyncio.AbstractEventLoop]) -> Iterator[Browser]:
    """Chromium. Its loop is this thread's while the test lasts; others can run one of their own before and after."""
    chromium, loop = driven
    asyncio._set_running_loop(loop)
    yield chromium
    asyncio._set_running_loop(None)


@pytest.fixture
def watch() -> Watch:
    """What goes wrong in the test's tabs; the test fails for it, see `expects`."""
    return Watch()


@pytest.fixture
def expects(watch: Watch) -> Callable[[str], None]:
    """Says what may and must go wrong in the test's tabs, by a regular expression: `expects("GET .*/moment: 404")`."""
    return watch.expects


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serves pages. They outlive the tabs, which would miss them: Chromium asks for an icon long after the page."""
    with ExitStack() as pages:
        yield lambda bus, **given: pages.enter_context(served(bus, **given))


@pytest.fixture
def new_tab(browser: Browser, watch: Watch, serve: Serve) -> Iterator[NewTab]:
    """Opens tabs of 1280x800, light, in Berlin, English; the test fails for what goes wrong in them."""
    contexts: list[BrowserContext] = []

    def open_tab(**options: Any) -> Page:
        usual = {"viewport": WIDE, "locale": "en-GB", "timezone_id": "Europe/Berlin", "reduced_motion": "reduce"}
        context = browser.new_context(**usual | options)
        contexts.append(context)
        context.set_default_timeout(WITHIN_MS)
        context.on("page", watch.begin)
        return context.new_page()

    yield open_tab
    for context in contexts:
        context.close()
    watch.check()


@pytest.fixture
def tab(new_tab: NewTab) -> Page:
    """One tab."""
    return new_tab()


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bus of a world with everything in it: see `tests.browser.world`. To be read only."""
    return shared_world(tmp_path_factory)


@pytest.fixture(scope="module")
def seen_world(world: Path) -> Iterator[Served]:
    """A page on that world, for which it is the time of its end. To be read only."""
    with served_world(world) as page:
        yield page


def until(tab: Page, holds: Callable[[], bool]) -> None:
    """Wait; the page's policy lets no `wait_for_function` in."""
    for _ in range(WITHIN_MS // 50):
        if holds():
            return
        tab.wait_for_timeout(50)
    pytest.fail(f"not within {WITHIN_MS} ms; the address is {tab.url}")
