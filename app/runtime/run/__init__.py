"""One run: its conductor, its steps, what a backend may do and where that is recorded."""
