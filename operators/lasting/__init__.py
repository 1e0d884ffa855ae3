"""What takes, holds or gathers more than it ever did, for a minute and longer."""

from laggard.operators.lasting.detector import Lasting

__all__ = ["Lasting"]
