"""The console: a page for people, made of static files and the public API."""
