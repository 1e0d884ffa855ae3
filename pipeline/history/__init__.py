"""Questions to the history that is on a bus: what was slow at any moment, since when, and what is now."""
