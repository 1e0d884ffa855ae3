"""The operator `lasting`: anomalies of a minute and longer."""

from laggard.operators.lasting.detector import Lasting

__all__ = ["Lasting"]
