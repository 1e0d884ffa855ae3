"""Features with their evidence, as they are written in all that has a ranking; see `outputs`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from laggard.operators.ranking import FeatureScore
from laggard.pipeline.records.strict_json import json_number

if TYPE_CHECKING:
    from collections.abc import Iterable

    from laggard.pipeline.records.fields import Fields


def features_json(features: Iterable[FeatureScore]) -> list[dict[str, Any]]:
    """The objects that are written."""
    return [
        {
            "feature": each.feature,
            "value": json_number(each.value),
            "mean": json_number(each.mean),
            "standard_deviation": json_number(each.standard_deviation),
            "score": json_number(each.score),
        }
        for each in features
    ]


def read_features(fields: Fields) -> tuple[FeatureScore, ...]:
    """Those in the field `features`. Raises `RecordError`."""
    return tuple(
        FeatureScore(
            feature=each.text("feature"),
            value=each.number("value"),
            mean=each.number("mean"),
            standard_deviation=each.number("standard_deviation"),
            score=each.number("score"),
        )
        for each in fields.objects("features")
    )
