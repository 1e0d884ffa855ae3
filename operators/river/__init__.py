"""Any of river's anomaly detectors as one more operator. Needs river: `pip install 'laggard[river]'`."""

from laggard.operators.river.blueprint import Blueprint
from laggard.operators.river.detector import River, Scores

__all__ = ["Blueprint", "River", "Scores"]
