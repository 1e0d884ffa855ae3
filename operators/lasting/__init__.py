"""The operator `lasting`: anomalies of a minute and longer."""

from laggard.operators.lasting.detector import Lasting
from laggard.operators.lasting.series import Series

__all__ = ["Lasting", "Series"]
