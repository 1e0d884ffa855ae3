"""The status of a host: the first of five that holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from laggard.pipeline.alarms.status import MEANINGS, STATUSES, status_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from laggard.pipeline.alarms.status import Status


@pytest.mark.parametrize(
    ("incidents", "suspicious", "young", "status"),
    [
        ([], False, False, "calm"),
        ([], False, True, "learning"),
        ([], True, True, "suspicious"),
        ([{"saturation"}], True, True, "saturated"),
        ([{"saturation"}, {"saturation"}], False, False, "saturated"),
        ([{"saturation", "gaussian"}], False, False, "incident"),
        ([{"saturation"}, {"cpu"}], True, True, "incident"),
    ],
)
def test_the_first_that_holds(
    incidents: list[Collection[str]], *, suspicious: bool, young: bool, status: Status
) -> None:
    assert status_of(incidents, suspicious=suspicious, young=young) == status
    assert tuple(MEANINGS) == STATUSES
