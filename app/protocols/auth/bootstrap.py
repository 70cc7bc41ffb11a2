"""The first admin key of a running server: a token that is printed at start and makes one key, once.

It exists only while no key may manage keys. It lives in this process's memory and, with the embedded database, in a
file of the data folder that `holdfast keys create` reads. Whoever can read that file can read the database too. A
restart makes a new one; the first admin key, made by whichever server, ends it. Workers on one port have the same one.
Leaves to others: making keys (the runtime).
"""

import asyncio
import contextlib
import os
import secrets
from collections.abc import Awaitable, Callable
from hmac import compare_digest
from pathlib import Path
from typing import Final

from app.core.access import scopes_of
from app.core.errors import Failure
from app.core.principal import Principal
from app.runtime.intake.keys import Grant, NewKey

BOOTSTRAP: Final = Principal("bootstrap", scopes=frozenset({"keys:manage"}))
"""Whoever shows the token. What it may make is said here and not by its scopes."""
FILE_NAME: Final = "bootstrap-token"
_ADMIN: Final = "keys:manage"


def new_token() -> str:
    return "hfb_" + secrets.token_urlsafe(32)


class Bootstrap:
    def __init__(self, has_admin: Callable[[], Awaitable[bool]], file: Path | None, given: str | None = None) -> None:
        """`has_admin`: whether a key that counts may manage keys. `file`: where the token is kept, if anywhere. `given`
        is the token to use instead of a new one."""
        self._has_admin, self._file, self._given = has_admin, file, given
        self._one_at_a_time = asyncio.Lock()
        self.token: str | None = None

    async def open(self) -> None:
        self._forget()
        if await self._has_admin():
            return
        self.token = self._given or new_token()
        if self._file is not None:
            descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as sink:
                sink.write(self.token + "\n")

    async def recognise(self, secret: str) -> Principal | None:
        if self.token is None or not compare_digest(self.token.encode(), secret.encode()):
            return None
        if await self._has_admin():  # another server made the first key
            self._forget()
            return None
        return BOOTSTRAP

    async def make(self, grant: Grant, create: Callable[[], Awaitable[NewKey | Failure]]) -> NewKey | Failure:
        """The one key. What fails leaves the token as it was."""
        if _ADMIN not in scopes_of(grant.roles, grant.scopes):
            return Failure("INVALID_REQUEST", "The first key must have the role admin, so that it can create others.")
        async with self._one_at_a_time:
            if self.token is None or await self._has_admin():
                self._forget()
                return Failure("UNAUTHENTICATED", "Credentials are needed.")
            made = await create()
            if isinstance(made, NewKey):
                self._forget()
            return made

    def _forget(self) -> None:
        self.token = None
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.unlink()
