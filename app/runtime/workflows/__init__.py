"""Workflows: graphs of steps and cycles of phases, on the context of a run."""
