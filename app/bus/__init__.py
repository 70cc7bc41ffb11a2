"""News between replicas; losing it costs latency, never data."""
