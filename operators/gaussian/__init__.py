"""S0: rank the rows of a frame, and their features, by their deviation from their own baselines."""

from laggard.operators.gaussian.detector import Gaussian
from laggard.operators.gaussian.scores import Scores
from laggard.operators.gaussian.versions import MIGRATIONS

__all__ = ["MIGRATIONS", "Gaussian", "Scores"]
