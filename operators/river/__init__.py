"""Any of river's anomaly detectors as one more operator. Needs river: `pip install 'laggard[river]'`."""

from laggard.operators.river.blueprint import Blueprint
from laggard.operators.river.detector import MIGRATIONS, River, Scores

__all__ = ["MIGRATIONS", "Blueprint", "River", "Scores"]
