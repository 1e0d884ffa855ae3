"""The pictures show the dashboards as they are."""

from __future__ import annotations

import json

import pytest
from PIL import Image

from tests.grafana.drawing import readable
from tests.grafana.pictures import DRAWN_OF, PICTURES, drawn_of
from tests.grafana.queries import FOLDER

NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_shows_the_current_dashboard(name: str) -> None:
    with Image.open(PICTURES / f"{name}.png") as picture:
        of = picture.info[DRAWN_OF]
    wanted = drawn_of(json.loads((FOLDER / f"{name}.json").read_text()))
    assert of == wanted, f"{name}.png is of another dashboard; `python -m tests.grafana.pictures` draws it anew"


def test_what_is_described_does_not_matter_to_a_picture_and_what_is_asked_does() -> None:
    document = json.loads((FOLDER / "overview.json").read_text())
    before = drawn_of(document)
    document["panels"][1]["description"] = "other"
    assert drawn_of(document) == before
    document["panels"][1]["targets"][0]["expr"] = "vector(1)"
    assert drawn_of(document) != before


def test_the_page_shows_all_of_them() -> None:
    page = (FOLDER.parent / "README.md").read_text()
    for name in NAMES:
        assert f"(pictures/{name}.png)" in page
        assert f"(dashboards/{name}.json)" in page
        assert (PICTURES / f"{name}.png").stat().st_size < 400_000


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.317, "percentunit", "31.7%"),
        (250_656_000.0, "short", "251 Mil"),
        (250_656_000.0, "Bps", "251 MB/s"),
        (1.5e9, "decbytes", "1.5 GB"),
        (0.0051, "s", "5.1 ms"),
        (2058.0, "s", "34.3 min"),
        (311.2, "suffix:\u00d7", "311 \u00d7"),
        (1_795_309_100_000.0, "dateTimeAsIso", "2026-11-22 00:58:20"),
        (float("nan"), "short", ""),
    ],
)
def test_values_have_their_units(value: float, unit: str, text: str) -> None:
    assert readable(value, unit) == text
