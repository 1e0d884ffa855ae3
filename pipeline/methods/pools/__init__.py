"""Pools: the frames of their members, re-keyed and joined, sentences on deviating members, and dendrograms."""
