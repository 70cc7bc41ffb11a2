"""Programs that the tests start."""
