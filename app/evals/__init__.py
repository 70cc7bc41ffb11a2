"""Datasets, sampling and evaluators."""
