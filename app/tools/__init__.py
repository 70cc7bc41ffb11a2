"""The only way to touch the world."""
