"""The subject of an answer: the row and the feature that it is about."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from laggard.operators.ranking import FeatureScore


class Subject(NamedTuple):
    """What an answer is about: a row of the frames of a scope, its name, and the feature that tells most."""

    scope: str
    row: str
    name: str
    feature: FeatureScore
