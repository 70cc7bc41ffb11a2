"""Recall, candidates and maintenance."""
