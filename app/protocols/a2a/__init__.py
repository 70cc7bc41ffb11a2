"""A2A: agents of this server as agents that others talk to, by JSON-RPC and by REST."""
