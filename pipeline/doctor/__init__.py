"""`laggard doctor`: the obstacles to good answers on this machine, and their remedies."""

from laggard.pipeline.doctor.finding import Finding, Level

__all__ = ["Finding", "Level"]
