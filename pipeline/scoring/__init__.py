"""Scoring: how frames come to an operator, and its scores to be anomalies; what all operators on frames share."""
