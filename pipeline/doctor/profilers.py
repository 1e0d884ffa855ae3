"""Checks of the profilers that show what the threads of a process execute."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from laggard.pipeline.doctor.finding import Finding
from laggard.pipeline.settings.producing import DiagnosisSettings
from laggard.producers.diagnosis import eustack, perf, pyspy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laggard.pipeline.settings import Settings

_INIT: Final = 1  # mostly a process of another user


def examine_profilers(settings: Settings) -> Finding:
    """Report the methods that this user can use here."""
    method = settings[DiagnosisSettings].method
    if not settings[DiagnosisSettings].enabled:
        return Finding("diagnosis", "ok", "the agent diagnoses no processes (diagnosis.enabled)")
    if method == "proc":
        return Finding("diagnosis", "ok", "the agent records only what threads wait in (diagnosis.method)")
    own = os.getpid()
    # The doctor is a Python process itself. Java programs are not checked: each decides by itself whether it answers.
    return finding_of(
        method, {"perf": perf.available(_INIT), "py-spy": pyspy.available(own), "eu-stack": eustack.available(own)}
    )


def finding_of(method: str, refusals: Mapping[str, str]) -> Finding:
    """Return the finding of this check.

    Args:
        method: the setting `diagnosis.method`.
        refusals: by method why it cannot be used; empty if it can.

    """
    usable = [name for name, refusal in refusals.items() if not refusal]
    refused = "; ".join(refusal for refusal in refusals.values() if refusal)
    if refusals.get(method):
        return Finding("diagnosis", "warning", f"diagnosis.method is {method}, which is unavailable", refusals[method])
    if method != "auto":
        return Finding("diagnosis", "ok", f"running threads are sampled by {method} alone (diagnosis.method)")
    if "perf" not in usable:
        problem = "nothing can sample running threads"
        if usable:
            problem = f"running threads are sampled by {' and '.join(usable)} alone"
        return Finding("diagnosis", "warning", problem, refused)
    missing = f" ({refused})" if refused else ""
    return Finding("diagnosis", "ok", f"running threads are sampled by {', '.join(usable)}{missing}")
