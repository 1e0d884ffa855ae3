"""The evaluation of the alarm, on a small machine."""

from __future__ import annotations

import pytest

from tests.evaluation.alarm import is_about, tables, trace
from tests.evaluation.simulated import Kind

TINY = Kind("tiny", 12, 30.0, 2, 2.0)


@pytest.mark.slow
def test_faults_are_noticed_and_their_incidents_end() -> None:
    troubled = trace(TINY, 0.8, 3, troubled=True)
    found = {
        fault: [each for each in troubled.reported if is_about(each, fault, troubled.names[fault.process])]
        for fault in troubled.faults
    }
    noticed = [fault for fault, incidents in found.items() if incidents]
    assert len(noticed) >= 0.6 * len(troubled.faults) > 5
    for fault in noticed:
        first, *_ = found[fault]
        assert fault.start - 60.0 <= first.begin <= first.ts
        assert first.begin < first.end
    told = tables([trace(TINY, 0.1, 3, troubled=False)], [troubled])
    assert f"Noticed: {len(noticed)} of {len(troubled.faults)}" in told
