"""What can happen: the envelope, the catalog, the recorder and the hub."""
