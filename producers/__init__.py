"""Producers of records: process and host counters, marks, and replayed files.

A producer separates `read` (touches `/proc`, a socket, a file) from `parse` (pure, tested with a string). Of the
pipeline it knows only the records of `laggard.pipeline.core.records`: their destination is an argument.
"""
