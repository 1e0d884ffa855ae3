"""Samples of the metrics that `declared.py` declares, with labels that are safe for any name."""

from __future__ import annotations

import math
import re
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from prometheus_client.samples import Exemplar, Sample

from laggard.pipeline.metrics.declared import MAX_LABEL, METRICS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from laggard.pipeline.core.engine.telemetry import Distribution, Example

_EXPOSED = {metric.name: metric.exposed for metric in METRICS}


def label(text: str) -> str:
    """Return a name as a label's value: printable, in UTF-8, and not too long.

    Names come from any process. They may have control characters, lone surrogates (from bytes that are not UTF-8), and
    any length.
    """
    if not text.isprintable():
        text = "".join(character if character.isprintable() else "\ufffd" for character in text)
    return text if len(text) <= MAX_LABEL else text[: MAX_LABEL - 1] + "…"


_INSTANCE: Final = re.compile(r"\[\d+(@\d+)?\]")
"""The pid and start that distinguish processes of one name in the id of a row, and so in the path of a group."""


def member(name: str) -> str:
    """Return the name of a member of a pool, or of a group of members, as a label's value: without process ids."""
    return label(_INSTANCE.sub("", name))


def sample(metric: str, labels: dict[str, str], value: float, exemplar: Exemplar | None = None) -> Sample:
    """Return a sample of a metric, by its name in `declared.py`."""
    return Sample(_EXPOSED[metric], labels, value, None, exemplar)


def exemplar(name: str, example: Example | None) -> Exemplar | None:
    """Return an exemplar with the key of a counted record under this name; None without a record."""
    return Exemplar({name: label(example.key)}, example.seconds, example.ts) if example else None


def histogram(metric: str, labels: dict[str, str], seen: Distribution, example: str = "key") -> Iterable[Sample]:
    """Yield the samples of a histogram, by its name in `declared.py`; `example` is the label of its exemplars."""
    name = _EXPOSED[metric]
    reached = list(accumulate(tuple(seen.counts)))  # a copy: another thread may still count
    for bound, count, one in zip((*map(repr, seen.bounds), "+Inf"), reached, seen.examples, strict=True):
        yield Sample(f"{name}_bucket", {**labels, "le": bound}, count, None, exemplar(example, one))
    yield Sample(f"{name}_sum", labels, seen.total)
    yield Sample(f"{name}_count", labels, reached[-1])


def present(labels: dict[str, str], **values: float) -> Iterable[Sample]:
    """Return samples of the values that are not NaN."""
    return [sample(name, labels, value) for name, value in values.items() if not math.isnan(value)]
