"""Content rules: what they look for, and what is done about it."""
