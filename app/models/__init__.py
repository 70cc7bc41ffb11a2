"""Provider-agnostic completion."""
