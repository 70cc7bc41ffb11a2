"""The database: the log, the tables folded from it, and what reads them."""
