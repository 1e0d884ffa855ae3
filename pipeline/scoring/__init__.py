"""Scoring: feeds frames to operators and turns their scores into anomalies."""
