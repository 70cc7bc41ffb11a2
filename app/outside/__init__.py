"""How the process reaches out: HTTP, processes, files."""
