"""Draws the dashboards: `python -m tests.grafana.pictures`, which takes some five minutes.

A scene is played with a real worker and a real Prometheus. What the panels' queries give then is drawn, by matplotlib
and not by Grafana, into `deploy/grafana/pictures`. Each picture remembers what it was drawn of, and a test fails when
that has changed.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from tests.grafana.drawing import Place, Series, Sheet, Span
from tests.grafana.queries import FOLDER, FUNCTION, filled
from tests.grafana.scene import REPLICAS, THREADS, Played, Script, Trouble, playing
from tests.grafana.service import Held
from tests.monitoring.servers import api, query

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PICTURES = FOLDER.parent / "pictures"
DRAWN_OF: Final = "Drawn-Of"

SCRIPT: Final = Script(
    lasts_s=260.0,
    troubles=(
        Trouble("db-1", "postgres", "io", 45.0, 105.0, 1.7),
        Trouble("cache-1", "gunicorn", "leak", 100.0, 600.0, 1.0),
        Trouble("web-1", "nginx", "hog", 200.0, 600.0, 1.5),
        Trouble(REPLICAS, "cache-1/checkout-3", "leak", 80.0, 600.0, 0.01),
        Trouble(THREADS, "java/http-nio-8080-exec-7", "busy", 120.0, 160.0, 1.0),
        Trouble(THREADS, "java/http-nio-8080-exec-4", "stuck", 180.0, 600.0, 1.0),
    ),
    held=(Held("lock", 90.0, 150.0, 0.12), Held("refused", 190.0, 600.0, 0.05)),
    marks=((65.0, "db-1"), (215.0, "web-1")),
    junk_s=120.0,
)
SEEDS: Final = {"web-1": 1, "db-1": 2, "cache-1": 3}
STEP_S: Final = 2
SETTLES_S: Final = 30.0
"""As much of the scene's beginning is not shown: what the models have learned from is worked off there."""

VALUES: Final = {
    "environment": ".*",
    "cluster": ".*",
    "application": ".+",
    "pool": ".+",
    "service": ".+",
    "row": "nginx",
    "feature": ".*",
    "__range": f"{SCRIPT.lasts_s - SETTLES_S:.0f}s",
    "__range_s": f"{SCRIPT.lasts_s - SETTLES_S:.0f}",
    "__interval": f"{2 * STEP_S}s",
    "__rate_interval": "15s",
}


def drawn_of(document: Mapping[str, Any]) -> str:
    """A digest of what a picture shows: panels with their places, titles, queries and forms, but not descriptions."""
    panels = [{key: value for key, value in panel.items() if key != "description"} for panel in document["panels"]]
    shown = json.dumps([panels, document["annotations"]], sort_keys=True)
    return hashlib.sha256(shown.encode()).hexdigest()[:16]


class Asking:
    """Asks Prometheus what a dashboard asks."""

    def __init__(self, played: Played, host: str) -> None:
        self._url = played.url
        self._begins, self._ends = played.begins + SETTLES_S, played.ends
        self._values = {**VALUES, "host": host}

    def series(self, panel: Mapping[str, Any], **more: str) -> list[Series]:
        """What all queries of a panel give."""
        return [
            Series(target["refId"], _named(target["legendFormat"], labels), labels, points)
            for target in panel.get("targets", ())
            for labels, points in self._asked(target["expr"], instant=target["instant"], **more)
        ]

    def title(self, panel: Mapping[str, Any], **more: str) -> str:
        """A title with its variables' values."""
        return filled(panel["title"], {**self._values, **more})

    def names(self, variable: Mapping[str, Any]) -> list[str]:
        """The values of a variable that is asked with `query_result`, which are those of a label of its name."""
        asked = FUNCTION.fullmatch(variable["query"]["query"])
        assert asked
        return [labels[variable["name"]] for labels, _ in self._asked(asked[2], instant=True)]

    def spans(self, document: Mapping[str, Any]) -> list[Span]:
        """What the annotations mark: successive points are one region, as Grafana makes them."""
        found = []
        for annotation in document["annotations"]["list"]:
            asked = self._asked(annotation["expr"], instant=False) if "expr" in annotation else ()
            for _, points in asked:
                regions: list[Span] = []
                for ts, _ in points:
                    if regions and ts - regions[-1].ends <= STEP_S:
                        regions[-1] = Span(regions[-1].begins, ts, annotation["iconColor"])
                    else:
                        regions.append(Span(ts, ts, annotation["iconColor"]))
                found += regions
        return found

    def _asked(
        self, expression: str, *, instant: bool, **more: str
    ) -> Iterator[tuple[Mapping[str, str], list[tuple[float, float]]]]:
        text = filled(expression, {**self._values, **more})
        ends = f"{self._ends:.0f}"
        if instant:
            found = query(self._url, text, time=ends)
            yield from ((one["metric"], [(one["value"][0], float(one["value"][1]))]) for one in found)
            return
        between = {"start": f"{self._begins:.0f}", "end": ends, "step": str(STEP_S)}
        answer = api(self._url, "/api/v1/query_range", query=text, **between)["data"]["result"]
        yield from ((one["metric"], [(ts, float(value)) for ts, value in one["values"]]) for one in answer)


def _named(form: str, labels: Mapping[str, str]) -> str:
    if form == "__auto":
        return ", ".join(value for name, value in labels.items() if name != "__name__")
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), form)


def draw(name: str, played: Played, host: str) -> None:
    """Draw one dashboard."""
    document = json.loads((FOLDER / f"{name}.json").read_text())
    asking = Asking(played, host)
    rows = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in document["panels"])
    sheet = Sheet(rows, played.begins + SETTLES_S, played.ends, asking.spans(document))
    for panel in document["panels"]:
        place = Place(**panel["gridPos"])
        if panel["type"] == "row":
            sheet.heading(place, asking.title(panel))
        elif "repeat" in panel:
            (variable,) = [one for one in document["templating"]["list"] if one["name"] == panel["repeat"]]
            features = asking.names(variable)[:3]
            for number, feature in enumerate(features):
                beside = Place(number * place.w, place.y, place.w, place.h)
                sheet.panel(beside, panel, asking.title(panel, feature=feature), asking.series(panel, feature=feature))
        else:
            sheet.panel(place, panel, asking.title(panel), asking.series(panel))
    PICTURES.mkdir(parents=True, exist_ok=True)
    path = PICTURES / f"{name}.png"
    sheet.save(str(path))
    _make_small(path, drawn_of(document))


def _make_small(path: Path, digest: str) -> None:
    said = PngInfo()
    said.add_text(DRAWN_OF, digest)
    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    small.save(path, optimize=True, pnginfo=said)


def main() -> None:
    """Play the scene and draw all."""
    with tempfile.TemporaryDirectory() as folder, playing(Path(folder), SCRIPT, SEEDS, STEP_S) as played:
        for name in ("overview", "host", "applications", "pools", "requests", "pipeline"):
            draw(name, played, "web-1" if name == "host" else ".+")


if __name__ == "__main__":
    main()
