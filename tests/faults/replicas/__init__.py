"""Three servers on one Postgres under load and faults, and a checker that shares no code with the server."""
