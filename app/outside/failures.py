"""What can be wrong with the outside world, and how a place in it is named in a message: never by path or query."""

from yarl import URL

from app.core.errors import HoldfastError


class OutsideError(HoldfastError):
    """The outside world did not answer, or must not be asked."""


def place_of(url: URL) -> str:
    return f"{url.host}:{url.port}"


def not_public(place: str) -> OutsideError:
    """A private, loopback or link-local address that nobody allowed."""
    message = f"{place} is not a public address; an internal host must be listed in `outgoing.private` of the Runtime"
    return OutsideError("ADDRESS_REFUSED", message)
