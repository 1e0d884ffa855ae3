"""Grafana: dashboards as code, and their publication. Nothing else in laggard needs it."""
