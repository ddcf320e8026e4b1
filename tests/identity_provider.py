"""An identity provider for tests: a token endpoint over https that gives tokens for client credentials."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote_plus


@dataclass
class IdentityProvider:
    """The next answers of the endpoint, and the requests that it received."""

    address: str
    answer: Callable[[], tuple[int, dict[str, str], bytes]]
    requests: list[tuple[str, str, dict[str, list[str]]]] = field(default_factory=list)
    """Client id, secret and form of each request."""


def granting(token: Callable[[], str], seconds: float | None) -> Callable[[], tuple[int, dict[str, str], bytes]]:
    """Return an answer with a token (RFC 6749, section 5.1)."""

    def answer() -> tuple[int, dict[str, str], bytes]:
        body = {"access_token": token(), "token_type": "Bearer"}
        lifetime = {} if seconds is None else {"expires_in": seconds}
        return 200, {}, json.dumps(body | lifetime).encode()

    return answer


@contextmanager
def identity_provider(
    chain: Path, answer: Callable[[], tuple[int, dict[str, str], bytes]], port: int = 0
) -> Iterator[IdentityProvider]:
    """Serve a token endpoint on loopback.

    Parameters
    ----------
    chain
        Key and certificate of the server, in one file.
    answer
        Status, headers and body of the next answer.
    port
        Port to listen on; 0 takes any free one.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            scheme, _, encoded = self.headers["Authorization"].partition(" ")
            assert scheme == "Basic"
            name, _, secret = base64.b64decode(encoded).decode().partition(":")
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            provider.requests.append((unquote_plus(name), unquote_plus(secret), form))
            status, headers, body = provider.answer()
            self.send_response(status)
            for key, value in headers.items():
                self.send_header(key, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    provider = IdentityProvider(f"https://127.0.0.1:{server.server_port}/token", answer)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
