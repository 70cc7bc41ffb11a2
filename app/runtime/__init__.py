"""Conducts a run from its submission to its terminal event."""
