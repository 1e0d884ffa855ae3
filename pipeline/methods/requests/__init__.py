"""Traced requests (S4): slow ones, and the reasons for their waits."""
