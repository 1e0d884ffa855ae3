"""Queries of the history on a bus: what was slow at any moment, since when, and what is slow now."""
