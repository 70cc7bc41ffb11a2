"""What a failed first connection to Postgres means: whether the database is away for a moment or the URL is wrong.

Leaves to others: waiting for one that is away (`wiring/web.py`).
"""

import socket

from app.events.ports import StorageDown, StorageUnreachable


def not_connected(error: Exception) -> StorageDown:
    """A database that is silent, full, or still starting is worth waiting for; one that refuses is not."""
    import asyncpg

    refused = (
        ConnectionRefusedError,
        socket.gaierror,
        asyncpg.InvalidAuthorizationSpecificationError,
        asyncpg.InvalidCatalogNameError,
    )
    kind = StorageUnreachable if isinstance(error, refused) else StorageDown
    return kind(f"cannot connect to the database: {type(error).__name__}")
