"""Answers allow, deny, transform, score."""
