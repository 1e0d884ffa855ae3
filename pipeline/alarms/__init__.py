"""Alarms: open and close the anomalies of a row, and apply feedback from people."""
