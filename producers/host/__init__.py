"""The agent: counters of processes, of the host itself and of pools, read at each tick."""
