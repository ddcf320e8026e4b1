"""The console's addresses, and how long it runs. It reads an output folder beside whatever writes there, and the daemon
neither needs nor imports it."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import signal
import socket
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from aiohttp import web

from models.errors import InputError
from stream.console.guard import HEADERS, MOST_BODY, SIGN_IN, Guard, fields_of
from stream.console.orders import ORDERS, Orders
from stream.console.reading import Folder
from stream.report import page as report_page

Got = TypeVar("Got")


class Console:
    """The handlers of one output folder. `orders`: None where no configuration leads to a running daemon."""

    def __init__(self, folder: Folder, guard: Guard, orders: Orders | None) -> None:
        self._folder, self._guard, self._orders = folder, guard, orders
        self._report_policy = {"Content-Security-Policy": _policy_of_the_report()}

    def application(self) -> web.Application:
        """Every address, behind the guard."""
        application = web.Application(middlewares=self._guard.middlewares(), client_max_size=MOST_BODY)
        application.add_routes(
            [
                web.get("/", self.overview),
                web.get("/report", self.report),
                web.get("/style.css", self.style),
                web.post("/sign-in", self.sign_in),
                web.post("/sign-out", self.sign_out),
                web.post("/order", self.order),
            ]
        )
        return application

    async def overview(self, request: web.Request) -> web.Response:
        """`/`: verdicts, what is held, the daemon. With the token in the query: a session, and the address without."""
        if "token" in request.query:
            return self._entered(request, request.query["token"])
        shown = await _apart(self._folder.overview)
        return self._page(request, "overview", shown=shown, orders=self._orders, words=ORDERS)

    async def report(self, request: web.Request) -> web.Response:
        """`/report`: what `veilstream report` writes, as the folder stands now."""
        if not await _apart(self._folder.has_releases):
            return self._page(request, "nothing", page="report")
        html = await _apart(self._folder.report)
        return web.Response(text=html, content_type="text/html", headers=self._report_policy)

    async def style(self, _request: web.Request) -> web.Response:
        """`/style.css`: the report's style and the console's."""
        return web.Response(text=self._guard.pages.style, content_type="text/css")

    async def sign_in(self, request: web.Request) -> web.Response:
        """`/sign-in`: the token by a form, for who reads it from a file."""
        return self._entered(request, (await fields_of(request)).get("token", "").strip())

    async def sign_out(self, request: web.Request) -> web.Response:
        """`/sign-out`: end the session."""
        await self._guard.form(request)
        self._guard.sessions.leave(request.cookies[self._guard.cookie])
        answer = web.Response(status=303, headers={"Location": "/"})
        answer.del_cookie(self._guard.cookie, path="/")
        return answer

    async def order(self, request: web.Request) -> web.Response:
        """`/order`: pause or resume, as `veilstream pause` and `veilstream resume` do."""
        session, fields = await self._guard.form(request)
        if self._orders is None:
            raise web.HTTPConflict(text="No running daemon is known here: start the console with -c FILE.")
        session.notice = await _apart(partial(self._orders.give, fields.get("order"), fields.get("publication")))
        return web.Response(status=303, headers={"Location": "/"})

    def _entered(self, request: web.Request, token: str) -> web.Response:
        guard = self._guard
        name = guard.sessions.enter(token)
        if name is None:
            raise web.HTTPUnauthorized(text=f"This token is not the one of this console. {SIGN_IN}")
        answer = web.Response(status=303, headers={"Location": "/"})
        secure = guard.address.proxy is not None
        answer.set_cookie(guard.cookie, name, httponly=True, samesite="Strict", path="/", secure=secure)
        return answer

    def _page(self, request: web.Request, template: str, **values: Any) -> web.Response:
        html = self._guard.pages.render(template, self._guard.session(request), **{"page": template, **values})
        return web.Response(text=html, content_type="text/html")


async def _apart(work: Callable[[], Got]) -> Got:
    """In a thread: files and the broker take their time, and other browsers wait for nobody."""
    return await asyncio.to_thread(work)


def _policy_of_the_report() -> str:
    """The report carries its one style sheet, known here by its sum, and lengths of bars as style attributes."""
    style = (report_page.FOLDER / "style.css").read_bytes()
    known = base64.b64encode(hashlib.sha256(style).digest()).decode()
    own = f"style-src-elem 'sha256-{known}'; style-src-attr 'unsafe-inline'"
    policy = HEADERS["Content-Security-Policy"].replace("style-src 'self'", own)
    return policy.replace("form-action 'self'", "form-action 'none'")


def listen(host: str, port: int) -> socket.socket:
    """A socket that browsers can come to; port 0 chooses one. InputError where it cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise InputError(f"serve: {host} port {port}: {error.strerror}; --port 0 chooses a free one") from None


def serve(console: Console, listening: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until SIGTERM or Ctrl-C; `ready` is called once a browser can come. What was begun is finished first."""
    asyncio.run(_serve(console, listening, ready))


async def _serve(console: Console, listening: socket.socket, ready: Callable[[], None]) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    runner = web.AppRunner(console.application(), access_log=None, shutdown_timeout=PATIENCE)
    await runner.setup()
    try:
        await web.SockSite(runner, listening).start()
        ready()
        await ended.wait()
    finally:
        await runner.cleanup()


PATIENCE = 5.0
"""Seconds that a browser gets to take its answer when the console ends."""
