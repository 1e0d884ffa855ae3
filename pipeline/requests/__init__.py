"""Traced requests (S4): which are slow, and what they waited for."""
