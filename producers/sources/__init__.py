"""Sources of performance: Prometheus pages, access logs, JSON lines, and recordings."""
