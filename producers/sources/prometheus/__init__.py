"""Metrics that applications serve for Prometheus: read from their own pages, or asked of a Prometheus server."""
