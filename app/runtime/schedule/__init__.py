"""Whose turn it is: the queue, the executor with its leases, and what ends by the clock."""
