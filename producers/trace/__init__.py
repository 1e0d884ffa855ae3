"""Requests from traces: recordings of the kernel, and the waits of each request (S4)."""
