"""Metrics that applications serve for Prometheus: read from their own pages, or asked of a Prometheus server."""

from laggard.producers.prometheus.server import Server
from laggard.producers.prometheus.targets import Targets

__all__ = ["Server", "Targets"]
