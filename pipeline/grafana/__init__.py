"""Grafana: dashboards as code, and what brings them there. Nothing else in laggard needs it."""
