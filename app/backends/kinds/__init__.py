"""One file per agent runtime."""
