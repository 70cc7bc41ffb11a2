"""What every request passes before a route sees it."""
