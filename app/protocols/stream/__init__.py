"""/api/stream: the websocket."""
