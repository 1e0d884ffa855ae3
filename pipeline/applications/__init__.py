"""Applications: the counters of their hosts re-keyed, joined with their performance, and the models of it."""
