"""What every room may use and that uses no room: ids, errors, clock, JSON, schemas, settings."""
