"""The operator's HTTP proxies, as the usual variables name them. Leaves to `routes`: which hosts may use one."""

from collections.abc import Mapping
from typing import Self

from yarl import URL

from app.core.errors import HoldfastError
from app.core.value import value
from app.outside.addresses import normal_host


class ProxyInvalid(HoldfastError):
    """A variable does not name a proxy. Its value is not repeated: it may hold a password."""

    def __init__(self, name: str) -> None:
        super().__init__("SETTINGS_INVALID", f"{name} is not an http or https URL of a proxy")


@value(frozen=True, slots=True)
class OutgoingProxies:
    """One proxy for each scheme of a request's URL, and the hosts that are reached without any."""

    http: URL | None = None
    https: URL | None = None
    bypass: str = ""
    """As NO_PROXY has it: names, domains and ports with commas between; `*` for every host."""

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Self:
        """Either spelling; the lower one wins, as it does for other programs."""

        def named(name: str) -> URL | None:
            text = environ.get(name.lower()) or environ.get(name)
            return _proxy(name, text) if text else None

        bypass = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
        return cls(named("HTTP_PROXY"), named("HTTPS_PROXY"), bypass)

    def of(self, url: URL) -> URL | None:
        proxy = self.https if url.scheme == "https" else self.http
        return None if proxy is None or self._bypasses(url) else proxy

    def _bypasses(self, url: URL) -> bool:
        """An entry covers a host, its subdomains, and with a port only that port."""
        host = normal_host(url.host or "")
        for entry in filter(None, (word.strip().lower() for word in self.bypass.split(","))):
            name, port = _split(entry.removeprefix("*").lstrip("."))
            if port in ("", str(url.port)) and (not name or host == name or host.endswith(f".{name}")):
                return True
        return False


def _split(entry: str) -> tuple[str, str]:
    """Name and port; an IPv6 address has colons of its own and a port only behind brackets."""
    if entry.startswith("["):
        name, _, port = entry[1:].partition("]")
        return name, port.removeprefix(":")
    name, _, port = entry.partition(":")
    return (entry, "") if ":" in port else (name, port)


def _proxy(name: str, text: str) -> URL:
    try:
        url = URL(text if "://" in text else f"http://{text}")
    except ValueError:
        raise ProxyInvalid(name) from None
    if url.scheme not in ("http", "https") or not url.host:
        raise ProxyInvalid(name)
    return url
