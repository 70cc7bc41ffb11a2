"""The one way out for every stream: connections, server-sent events, the websocket's frames and the follower."""
