"""Applications: the re-keyed counters of their hosts, joined with their performance, and models of it."""
