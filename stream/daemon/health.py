"""`/healthz` and `/readyz` on loopback: whether the process lives and moves, and what it is doing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
from aiohttp import web

from stream.daemon.broker_contact import BrokerContact
from stream.daemon.unreadable import unreadable_partitions
from stream.release.schedule import LONGEST_BUILD
from stream.values.duration import SECOND

HOST = "127.0.0.1"
READY = ("active", "standby", "ingesting")
"""A standby is ready: it does what it is there for. A gap is not: nothing is released until somebody decides."""

STUCK_SECONDS = LONGEST_BUILD / SECOND
"""A step that takes longer than this has hung: the longest build that is planned for takes minutes."""


def faulty_state(contact: BrokerContact) -> str | None:
    """Return the state of a process that runs and cannot do its work; None where nothing is known to hinder it."""
    if contact.away:
        return "broker away"
    return "unreadable" if unreadable_partitions.partitions else None


Probe = Callable[[], Mapping[str, Any]]
"""{"role", "state", "busy_seconds": how long the step at hand has taken, ...}; no content of any record."""


async def serve(port: int, probe: Probe) -> web.AppRunner:
    """Start the endpoints; the caller cleans the runner up."""

    async def alive(_request: web.Request) -> web.Response:
        state = probe()
        return _answer(state, ok=float(state.get("busy_seconds") or 0.0) < STUCK_SECONDS)

    async def ready(_request: web.Request) -> web.Response:
        state = probe()
        return _answer(state, ok=state["state"] in READY)

    application = web.Application()
    application.router.add_get("/healthz", alive)
    application.router.add_get("/readyz", ready)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, HOST, port).start()
    return runner


def serve_refusal(port: int | None, role: str, code: int) -> None:
    """Serve the endpoints of a process that refused and waits, from its own thread: it is alive, and not ready."""
    if port is None:
        return
    body = msgspec.json.encode({"role": role, "state": "refused", "exit_code": code})

    class Refusal(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response({"/healthz": 200, "/readyz": 503}.get(self.path, 404))
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing: probes come all the time."""

    try:
        server = ThreadingHTTPServer((HOST, port), Refusal)
    except OSError:
        return  # that the port is taken may be what was refused
    threading.Thread(target=server.serve_forever, name="refusal", daemon=True).start()


def _answer(state: Mapping[str, Any], *, ok: bool) -> web.Response:
    return web.Response(
        body=msgspec.json.encode(dict(state)), status=200 if ok else 503, content_type="application/json"
    )
