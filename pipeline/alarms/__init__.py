"""Alarms: when a row is reported, for how long its anomaly is open, and what people said of that."""
