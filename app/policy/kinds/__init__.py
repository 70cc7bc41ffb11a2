"""One file per kind of policy handler."""
