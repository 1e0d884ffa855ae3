"""Members of a pool compared with each other by the covariances of their metrics (S3)."""

from laggard.operators.covariance.clustering import au_p_values, ward
from laggard.operators.covariance.distance import centre, foerstner_moonen, pairwise, tangent, whiten
from laggard.operators.covariance.published import Published, Ranked, aggregated, rank
from laggard.operators.covariance.windows import LIFE, Windows

__all__ = [
    "LIFE",
    "Published",
    "Ranked",
    "Windows",
    "aggregated",
    "au_p_values",
    "centre",
    "foerstner_moonen",
    "pairwise",
    "rank",
    "tangent",
    "ward",
    "whiten",
]
