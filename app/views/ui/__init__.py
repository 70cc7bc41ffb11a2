"""Agent UI events: their validation and their projection. Pure functions of lists of events, ours or anybody's."""
