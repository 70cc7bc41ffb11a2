"""How other systems spell our events: one module per dialect, pure functions."""
