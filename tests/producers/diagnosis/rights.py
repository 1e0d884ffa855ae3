"""What this user may ask of the kernel about running threads: a container may forbid it even to root."""

from __future__ import annotations

import os

import pytest

from laggard.producers.diagnosis import perf
from laggard.producers.diagnosis.events import ANY, Events


def _refusal_of_cores() -> str:
    try:
        Events(ANY, cpu=min(os.sched_getaffinity(0)), period_ns=10**9, kernel=True).close()
    except OSError as error:
        return f"takes the right to sample all that runs on a core: {error}"
    return ""


_OWN, _CORES = perf.available(os.getpid()), _refusal_of_cores()

SAMPLES = pytest.mark.skipif(bool(_OWN), reason=_OWN)
"""Its own processes."""
SAMPLES_ALL = pytest.mark.skipif(bool(_CORES), reason=_CORES)
"""Whatever runs, in the kernel too."""
