"""The codex-manager sessions API: threads as sessions, runs as turns, interrupts as requests."""
