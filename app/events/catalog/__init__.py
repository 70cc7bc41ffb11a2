"""Every event type as a frozen model, one module per family."""
