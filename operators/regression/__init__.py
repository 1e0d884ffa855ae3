"""S2: performance models that explain the response time of an application, and detect when they stop being valid."""

from laggard.operators.regression.detector import Regression
from laggard.operators.regression.models import Candidate, Model, Prediction, SampleScores, Suspect, Term, Trait

__all__ = ["Candidate", "Model", "Prediction", "Regression", "SampleScores", "Suspect", "Term", "Trait"]
