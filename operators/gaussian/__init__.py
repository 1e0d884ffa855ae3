"""S0: rank the rows of a frame, and their features, by how unlike their usual selves they are."""

from laggard.operators.gaussian.detector import Gaussian, Scores

__all__ = ["Gaussian", "Scores"]
