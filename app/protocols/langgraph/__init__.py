"""LangGraph Server's protocols on our runs: its REST interface, its streams, and its commands and events."""
