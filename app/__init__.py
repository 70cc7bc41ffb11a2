"""Holdfast: a server that runs AI agents and records everything they do."""

__version__ = "0.1.0.dev0"
