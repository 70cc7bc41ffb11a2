"""The client of a Holdfast server, blocking and for asyncio, with types for everything that is sent and received.

    from holdfast.client import Client

    with Client("http://127.0.0.1:8700") as client:
        run = client.runs.create(agent="assistant", input="please calculate")
        for text in client.runs.follow_text(run["id"]):
            print(text, end="")

Methods and types are generated from the OpenAPI document; field names are those of the API. Requests that may be
repeated are repeated when the connection is lost or the server is busy, and streams go on where they were cut.
"""

from holdfast.client.async_client import AsyncClient
from holdfast.client.errors import ApiError, ClientError, ConnectionLost, RunNotCompleted
from holdfast.client.sync_client import Client

__all__ = ["ApiError", "AsyncClient", "Client", "ClientError", "ConnectionLost", "RunNotCompleted"]
