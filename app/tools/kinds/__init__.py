"""One file per kind of tool."""
