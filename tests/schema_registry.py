"""A schema registry for tests: a small server that speaks the documented REST interface of Confluent's.

No real registry can be had from a package registry (Confluent's and Apicurio's servers are published elsewhere), so
this one replaces it: `GET /schemas/ids/{id}`, `POST /subjects/{subject}`, `POST
/subjects/{subject}/versions`, `GET
/subjects/{subject}/versions/{version}`, references, error bodies with their codes (40401, 40402, 40403, 40101, 50001),
Basic and Bearer authentication, TLS. It checks nothing of what is registered.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote, urlsplit

CONTENT = "application/vnd.schemaregistry.v1+json"


class SchemaRegistry:
    """A registry on a free port of loopback. `status`: answer every request with it (an outage); `requests`: the paths
    that were asked for."""

    def __init__(self, *, basic: tuple[str, str] | None = None, bearer: str | None = None) -> None:
        self.schemas: list[dict[str, Any]] = []
        self.subjects: dict[str, list[int]] = {}
        self.requests: list[str] = []
        self.status: int | None = None
        self.authorization: str | None = None
        if basic is not None:
            self.authorization = "Basic " + base64.b64encode(":".join(basic).encode()).decode()
        if bearer is not None:
            self.authorization = f"Bearer {bearer}"
        self._tls: ssl.SSLContext | None = None
        self._server: ThreadingHTTPServer | None = None
        self.port = 0

    def encrypted(self, certificate: Path, key: Path, clients: Path | None = None) -> Self:
        """Serve by TLS; with `clients`, only to those that show a certificate of this authority."""
        self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=clients)
        self._tls.load_cert_chain(certificate, key)
        if clients is not None:
            self._tls.verify_mode = ssl.CERT_REQUIRED
        return self

    @property
    def url(self) -> str:
        return f"{'http' if self._tls is None else 'https'}://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Serve, on the same port as before if there was one."""
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.answer(self, None)

            def do_POST(self) -> None:
                registry.answer(self, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_: object) -> None:
                pass  # a client that does not trust us

        self._server = Server(("127.0.0.1", self.port), Handler)
        self.port = self._server.server_address[1]
        if self._tls is not None:
            self._server.socket = self._tls.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def register(self, subject: str, schema: str, kind: str = "AVRO", references: tuple[Any, ...] = ()) -> int:
        """The id of a schema; the same text has the same id."""
        body = {"schema": schema, "schemaType": kind, "references": list(references)}
        if body not in self.schemas:
            self.schemas.append(body)
        number = self.schemas.index(body) + 1
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def answer(self, request: Any, body: dict[str, Any] | None) -> None:
        """One request."""
        path = urlsplit(request.path).path
        self.requests.append(path)
        if self.status is not None:
            self._say(request, self.status, {"error_code": 50001, "message": "Error in the backend data store"})
        elif self.authorization is not None and request.headers.get("Authorization") != self.authorization:
            self._say(request, 401, {"error_code": 40101, "message": "Unauthorized"})
        else:
            self._say(request, *self._found([unquote(part) for part in path.strip("/").split("/")], body))

    def _found(self, parts: list[str], body: dict[str, Any] | None) -> tuple[int, dict[str, Any]]:
        match parts, body:
            case ["schemas", "ids", number], None:
                if not 0 < int(number) <= len(self.schemas):
                    return 404, {"error_code": 40403, "message": f"Schema {number} not found"}
                return 200, self._described(int(number))
            case ["subjects", subject, "versions"], dict():
                kind, references = body.get("schemaType", "AVRO"), tuple(body.get("references", ()))
                return 200, {"id": self.register(subject, body["schema"], kind, references)}
            case ["subjects", subject], dict():
                kind, references = body.get("schemaType", "AVRO"), list(body.get("references", ()))
                asked = {"schema": body["schema"], "schemaType": kind, "references": references}
                for place, number in enumerate(self.subjects.get(subject, ()), 1):
                    if self.schemas[number - 1] == asked:
                        return 200, {"subject": subject, "version": place, "id": number, **self._described(number)}
                return 404, {"error_code": 40403, "message": "Schema not found"}
            case ["subjects", subject, "versions", version], None:
                if subject not in self.subjects:
                    return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
                versions = self.subjects[subject]
                place = len(versions) if version == "latest" else int(version)
                if not 0 < place <= len(versions):
                    return 404, {"error_code": 40402, "message": f"Version {version} not found."}
                number = versions[place - 1]
                return 200, {"subject": subject, "version": place, "id": number, **self._described(number)}
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _described(self, number: int) -> dict[str, Any]:
        """As Confluent's: the type only if it is not Avro, references only if there are some."""
        body = self.schemas[number - 1]
        shown = {"schema": body["schema"]}
        if body["schemaType"] != "AVRO":
            shown["schemaType"] = body["schemaType"]
        return shown | ({"references": body["references"]} if body["references"] else {})

    @staticmethod
    def _say(request: Any, status: int, body: dict[str, Any]) -> None:
        text = json.dumps(body).encode()
        request.send_response(status)
        request.send_header("Content-Type", CONTENT)
        request.send_header("Content-Length", str(len(text)))
        request.end_headers()
        request.wfile.write(text)


def framed(number: int, body: bytes) -> bytes:
    """A body in Confluent's wire format."""
    return b"\0" + number.to_bytes(4, "big") + body
