"""The subject of an answer: its row and its feature."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from laggard.operators.ranking import FeatureScore


class Subject(NamedTuple):
    """The subject of an answer: a row of the frames of a scope, its name, and its main feature."""

    scope: str
    row: str
    name: str
    feature: FeatureScore
