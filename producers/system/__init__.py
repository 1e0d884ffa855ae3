"""Shared by all producers: bounded reading of /proc and of foreign files, clocks, redaction."""
