"""Members of a pool compared with each other by the covariances of their metrics (S3)."""

from laggard.operators.covariance.distance import centre, foerstner_moonen, pairwise, tangent, whiten
from laggard.operators.covariance.windows import LIFE, Windows

__all__ = ["LIFE", "Windows", "centre", "foerstner_moonen", "pairwise", "tangent", "whiten"]
