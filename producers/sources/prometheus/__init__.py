"""Metrics that applications serve for Prometheus: read from their own pages, or queried from a Prometheus server."""
