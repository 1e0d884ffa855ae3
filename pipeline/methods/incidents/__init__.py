"""Incidents: the anomalies of one fault, joined over time, rows and operators."""
