"""Saturation: the resources that a host is or soon becomes short of, even if that is usual, and their users."""

from laggard.operators.saturation.detector import Saturation
from laggard.operators.saturation.users import Users

__all__ = ["Saturation", "Users"]
