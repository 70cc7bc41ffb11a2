"""What can be wrong with the outside world, and how a place in it is named in a message: never by path or query."""

from yarl import URL

from app.core.errors import HoldfastError


class OutsideError(HoldfastError):
    """The outside world did not answer, or must not be asked."""


def place_of(url: URL) -> str:
    return f"{url.host}:{url.port}"
