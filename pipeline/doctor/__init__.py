"""`laggard doctor`: what stands in the way of good answers on this machine, and what to do about it."""

from laggard.pipeline.doctor.finding import Finding, Level

__all__ = ["Finding", "Level"]
