"""Requests from traces: what recorded a kernel, what each request waited for (S4)."""
