"""Outside shapes to commands, and events to frames. The only room that knows the web framework."""
