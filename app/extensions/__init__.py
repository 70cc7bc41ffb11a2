"""Third-party handlers on events."""
