"""REST: one module per resource."""
