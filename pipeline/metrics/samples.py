"""Samples of the metrics that `metrics.py` declares, with labels that no name can spoil."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

from prometheus_client.samples import Sample

from laggard.pipeline.metrics.declared import MAX_LABEL, METRICS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.samples import Exemplar

_EXPOSED = {metric.name: metric.exposed for metric in METRICS}


def label(text: str) -> str:
    """A name as a label's value: printable, in UTF-8, and not too long.

    Names come from other people's processes: they may hold control characters, halves of characters (what is left of
    bytes that were no UTF-8), and as many characters as their author liked.
    """
    if not text.isprintable():
        text = "".join(character if character.isprintable() else "\ufffd" for character in text)
    return text if len(text) <= MAX_LABEL else text[: MAX_LABEL - 1] + "…"


_INSTANCE: Final = re.compile(r"\[\d+(@\d+)?\]")
"""What tells processes of one name apart in a row's id, and so in the path of a group: a pid, and when it started."""


def member(name: str) -> str:
    """The name of a member of a pool, or of a group of members, as a label's value: without process ids."""
    return label(_INSTANCE.sub("", name))


def sample(metric: str, labels: dict[str, str], value: float, exemplar: Exemplar | None = None) -> Sample:
    """A sample of a metric, by its name in `metrics.py`."""
    return Sample(_EXPOSED[metric], labels, value, None, exemplar)


def present(labels: dict[str, str], **values: float) -> Iterable[Sample]:
    """Samples of the values that are there."""
    return [sample(name, labels, value) for name, value in values.items() if not math.isnan(value)]
