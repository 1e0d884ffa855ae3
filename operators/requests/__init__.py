"""Slow requests (S4): which are out of line, which of these are alike, and what sets them apart.

Fournier, Ezzati-Jivan, Aloise, Dagenais: Automatic Cause Detection of Performance Problems in Web Applications, 2019.
"""
