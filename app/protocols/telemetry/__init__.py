"""Metrics and traces: computed from committed events, for whoever watches the process from outside."""
