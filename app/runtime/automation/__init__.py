"""What acts by itself on the log: followers, webhooks and schedules."""
