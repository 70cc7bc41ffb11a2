"""Workflows: graphs of steps on the context of a run."""
