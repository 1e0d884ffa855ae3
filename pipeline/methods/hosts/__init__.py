"""The operators on the counters of hosts and their processes, as the settings ask for them."""
