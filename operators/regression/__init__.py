"""Performance models that explain an application's response time, and notice when they stop being true (S2)."""

from laggard.operators.regression.detector import Regression
from laggard.operators.regression.models import Candidate, Judgement, Model, Prediction, Suspect, Term, Trait

__all__ = ["Candidate", "Judgement", "Model", "Prediction", "Regression", "Suspect", "Term", "Trait"]
