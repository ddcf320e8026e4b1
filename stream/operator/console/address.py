"""Address of the console, and the names under which a browser may request it.

A page elsewhere can give its own name this host's address (DNS rebinding): the browser then takes the console for that
page's site. The browser cannot hide which name it was sent to, so that every other name is refused.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

from models.errors import InputError

LOCAL = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Address:
    """`host` to listen on; `proxy`: the origin (`https://NAME`) under which a proxy with TLS shows the console."""

    host: str = LOCAL
    proxy: str | None = None

    def origin_of(self, host: str) -> str | None:
        """Return the origin of a browser that sent this Host header; None if the name is not one of ours.

        The port may be any: an ssh tunnel chooses its own.

        Parameters
        ----------
        host
            Value of the Host header.
        """
        if self.proxy is not None:
            if host.lower() == urlsplit(self.proxy).netloc:
                return self.proxy
            return None
        name = _name(host)
        return f"http://{host}" if name == "localhost" or (name is not None and _is_loopback(name)) else None

    def url(self, port: int) -> str:
        """Return the address to open in a browser.

        Parameters
        ----------
        port
            Port of the console.
        """
        host = f"[{self.host}]" if ":" in self.host else self.host
        if self.proxy is not None:
            return f"{self.proxy}/"
        return f"http://{host}:{port}/"


def address(host: str, proxy: str | None) -> Address:
    """Return the address of the console, checked.

    Parameters
    ----------
    host
        Name or address to listen on.
    proxy
        Address that a proxy with TLS shows, if there is one.

    Raises
    ------
    InputError
        If the network could read the pages on their way.
    """
    if proxy is not None:
        return Address(host, _origin(proxy))
    if host == "localhost":
        return Address()
    if not _is_loopback(host):
        raise InputError(
            f"serve: --host {host} would show what is held to the network, without encryption; stay on {LOCAL} and use "
            "an ssh tunnel, or name the proxy with TLS in front: --behind-proxy https://NAME"
        )
    return Address(host)


def _origin(text: str) -> str:
    try:
        parts = urlsplit(text)
        named = parts.hostname is not None and parts.port != 0
    except ValueError:
        named = False
    if not named or parts.scheme != "https" or parts.username is not None:
        raise InputError(f"serve: --behind-proxy {text}: write the https address of the proxy, like https://NAME")
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise InputError(f"serve: --behind-proxy {text}: the console needs a name of its own, without a path")
    return f"https://{parts.netloc.lower()}"


def _name(host: str) -> str | None:
    """Return the name of a Host header without its port; None if it is malformed."""
    try:
        parts = urlsplit(f"//{host}")
        port = parts.port
    except ValueError:
        return None
    is_plain = parts.netloc == host and parts.username is None and port != 0
    return parts.hostname if is_plain else None


def _is_loopback(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
