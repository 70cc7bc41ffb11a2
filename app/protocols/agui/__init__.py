"""AG-UI: an agent behind one address, its runs as the events that user interfaces draw."""
