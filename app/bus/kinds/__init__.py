"""One file per messaging engine."""
