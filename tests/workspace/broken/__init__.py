"""Broken workspaces, each with what must be reported about it."""
