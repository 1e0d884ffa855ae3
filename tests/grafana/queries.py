"""What the dashboards ask Prometheus, and how Grafana fills in what stands for something."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FOLDER = Path(__file__).parents[2] / "deploy/grafana/dashboards"

FUNCTION = re.compile(r"(label_values|query_result)\((.*)\)", re.DOTALL)
LABEL = re.compile(r"(.*), *(\w+)", re.DOTALL)


class Asked(NamedTuple):
    """One query.

    Attributes:
        place: dashboard, panel and query, for people.
        expression: as it is written there.
        instant: whether it is asked for the end of the time range alone.

    """

    place: str
    expression: str
    instant: bool


def panels_of(document: Mapping[str, Any]) -> list[Any]:
    """All panels, the headings of rows among them."""
    return [one for panel in document["panels"] for one in (panel, *panel.get("panels", ()))]


def asked() -> Iterator[Asked]:
    """All queries of all panels, variables and annotations that go to Prometheus."""
    for path in sorted(FOLDER.glob("*.json")):
        document = json.loads(path.read_text())
        for panel in panels_of(document):
            for target in panel.get("targets", ()):
                place = f"{path.stem}: {panel['title']} ({panel['type']}): {target['refId']}"
                yield Asked(place, target["expr"], target["instant"])
        for variable in document["templating"]["list"]:
            if variable["type"] == "query":
                yield Asked(f"{path.stem}: variable {variable['name']}", variable["query"]["query"], True)
        for annotation in document["annotations"]["list"]:
            if "expr" in annotation:
                yield Asked(f"{path.stem}: annotation {annotation['name']}", annotation["expr"], False)


def filled(text: str, values: Mapping[str, str]) -> str:
    """A text with its variables' values; `$1` is PromQL's own. Raises `KeyError` for an unknown variable."""
    return re.sub(r"\$([^\W\d]\w*)", lambda found: values[found[1]], text)


def without_texts(expression: str) -> str:
    """An expression with nothing between its quotes."""
    return re.sub(r'"(?:[^"\\]|\\.)*"', '""', expression)


def metrics_of(expression: str) -> set[str]:
    """The names of metrics in an expression."""
    return set(re.findall(r"\b(?:laggard|process)_\w+", without_texts(expression)))
