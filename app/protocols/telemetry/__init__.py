"""Metrics and traces: what watches the process from outside, told from committed events."""
