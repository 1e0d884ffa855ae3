"""Members of a pool compared with each other by the covariances of their metrics (S3)."""

from laggard.operators.covariance.clustering import au_p_values, ward
from laggard.operators.covariance.detector import Covariance, Method
from laggard.operators.covariance.distance import centre, foerstner_moonen, pairwise, tangent, whiten
from laggard.operators.covariance.published import Published, Ranked, aggregated, rank
from laggard.operators.covariance.results import Dendrogram, Deviation, Kind, Level, Report
from laggard.operators.covariance.windows import LIFE, Windows

__all__ = [
    "LIFE",
    "Covariance",
    "Dendrogram",
    "Deviation",
    "Kind",
    "Level",
    "Method",
    "Published",
    "Ranked",
    "Report",
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
