"""Incidents: what operators say of one trouble, joined over time, rows and operators."""
