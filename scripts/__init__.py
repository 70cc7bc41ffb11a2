"""What generates, locks and records: run by the Makefile, never by the server."""
