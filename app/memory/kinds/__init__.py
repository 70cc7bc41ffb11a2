"""One file per kind of memory."""
