"""The boundaries of requests: probes in programs, markers that programs write, and connections."""
