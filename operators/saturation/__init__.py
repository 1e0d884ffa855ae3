"""Saturation: what a host is short of, or soon will be, however usual that is there, and who uses it."""

from laggard.operators.saturation.detector import Saturation
from laggard.operators.saturation.users import Users

__all__ = ["Saturation", "Users"]
