"""What publishes: process and host counters, marks, and files replayed.

A producer separates `read` (touches `/proc`, a socket, a file) from `parse` (pure, tested with a string), knows the
words of `laggard.pipeline.records` and nothing else of the pipeline: where its records go is an argument.
"""
