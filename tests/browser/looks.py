"""The views of the page as they are looked at: by axe-core, by the camera, and by who checks that all is there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from playwright.sync_api import expect

from tests.browser.world import BEGINS, HOST
from tests.grafana.scene import APPLICATION, SERVICE, THREADS

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.pipeline.investigator.serving import Served


@dataclass(frozen=True, slots=True)
class Look:
    """Something to look at.

    Attributes:
        name: of it, and of its pictures.
        address: of the page, below where it is served.
        shows: what is to be seen there, as selectors.

    """

    name: str
    address: str
    shows: tuple[str, ...]

    def open(self, tab: Page, url: str) -> None:
        """Go there, and wait until all is drawn. Raises `AssertionError` where something does not come."""
        tab.goto(url + self.address)
        for selector in self.shows:
            expect(tab.locator(selector).first).to_be_visible()
        expect(tab.locator("main [aria-busy=true]")).to_have_count(0)
        tab.evaluate("() => new Promise((next) => requestAnimationFrame(() => setTimeout(next)))")


def _address(path: str, **params: object) -> str:
    return f"{path}?{urlencode(params)}"


_CHART: Final = "laggard-chart canvas"


def looks(page: Served) -> tuple[Look, ...]:
    """All views of the world that is served."""
    incidents = page.client.get("/api/v1/incidents").json()["incidents"]
    incident = next(each for each in incidents if (each["keyed_by"], each["key"], each["open"]) == ("host", HOST, True))
    request = page.client.get("/api/v1/requests/list", params={"service": SERVICE}).json()["requests"][0]
    application = {"application": APPLICATION, "performance": "response_time_mean_s"}
    metric = f"{HOST}:pressure_cpu_some_ratio"
    of_service = {"service": SERVICE, "cluster": request["cluster"]}
    path = {"service": SERVICE, "request": request["request"], "at": request["ts"]}
    before = {"at": BEGINS + 560.0, "compare": BEGINS + 500.0}
    return (
        Look("now", "/", (".now-ranking tbody tr", ".now-features tbody tr", _CHART)),
        Look("compare", _address("/", **before), (".now-comparing", ".now-ranking tbody tr", _CHART)),
        Look("incidents", "/incidents", (f"a[href*='{incident['id']}']",)),
        Look("incident", _address("/incidents", id=incident["id"]), ("h1", _CHART, "svg[aria-label*='lame']")),
        Look("configuration", _address("/applications", **application, tab="configuration"), ("main table, main dl",)),
        Look("tracking", _address("/applications", **application, tab="tracking"), (_CHART,)),
        Look("analysis", _address("/applications", **application, tab="analysis", metric=metric), ("table", _CHART)),
        Look("diagnosis", _address("/applications", **application, tab="diagnosis"), (f"main >> text={HOST}",)),
        Look("pools", "/pools", ("main table",)),
        Look("pool", _address("/pools", pool=THREADS), ("main svg", _CHART)),
        Look(
            "requests",
            _address("/requests", **of_service),
            ("laggard-scatter canvas", "text=placed by Isomap"),
        ),
        Look("request", _address("/requests", **path), ("laggard-lanes svg", "[aria-label^='Time in each'] table")),
        Look("pipeline", "/pipeline", ("main table", "main >> text=laggard-worker")),
    )
