"""Who calls. Without authentication (loopback only) it is the local operator; authentication replaces this."""

from typing import Annotated

from fastapi import Depends

from app.core.principal import LOCAL, Principal


async def authenticate() -> Principal:
    return LOCAL


Caller = Annotated[Principal, Depends(authenticate)]
