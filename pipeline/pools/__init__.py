"""Pools: the frames of their members re-keyed and joined, who of them deviates in words, and dendrograms of them."""
