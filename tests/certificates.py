"""The certificates of the machine, read once for all clients of a process: that takes 60 ms, and thousands are made.

Leaves to others: authorities of a test's own, which only the client that is given them trusts.
"""

import functools
import os
import ssl

import httpcore2

_read = httpcore2.default_ssl_context


@functools.cache
def _of_clients(trust_env: bool, *_places: str | None) -> ssl.SSLContext:
    return _read(_trust_env=trust_env)


def _places() -> tuple[str | None, ...]:
    """Where the machine's are, if a test says that they are somewhere else."""
    return os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")


def _of_client(*, _trust_env: bool = True) -> ssl.SSLContext:
    return _of_clients(_trust_env, *_places())


def read_once() -> None:
    """From now on, in this process and those that it forks."""
    httpcore2.default_ssl_context = _of_client
