"""The console's addresses, and how long it runs.

It reads an output folder beside whatever writes there, and the daemon neither needs nor imports it.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import signal
import socket
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from aiohttp import web

from models.errors import InputError
from stream.operator.approval import decide
from stream.operator.console import releases
from stream.operator.console.guard import HEADERS, MOST_BODY, SIGN_IN, Guard, fields_of
from stream.operator.console.orders import ORDERS, Orders
from stream.operator.console.reading import Folder
from stream.operator.report import page as report_page
from stream.release.approval import LONGEST, Order

Got = TypeVar("Got")

RELEASE = r"/held/{publication}/{number:[1-9]\d{0,8}}"


class Console:
    """The handlers of one output folder. `orders`: None if no configuration leads to a running daemon."""

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
                web.get("/held", self.held),
                web.get(RELEASE, self.release),
                web.post(RELEASE, self.decide),
                web.get("/decisions", self.decisions),
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
        """`/report`: what `veilstream report` writes, as the folder is now."""
        if not await _apart(self._folder.has_attempts):
            return self._page(request, "nothing", page="report")
        html = await _apart(self._folder.report)
        return web.Response(text=html, content_type="text/html", headers=self._report_policy)

    async def held(self, request: web.Request) -> web.Response:
        """`/held`: what waits for a decision."""
        waiting = await _apart(partial(releases.queue, self._folder.output))
        return self._page(request, "held", waiting=waiting)

    async def release(self, request: web.Request) -> web.Response:
        """`/held/PUBLICATION/N`: one of them, with the statement to sign and the form."""
        one = await self._held(request)
        return self._page(request, "release", page="held", one=one, wrong="", given=dict.fromkeys(FIELDS, ""))

    async def decide(self, request: web.Request) -> web.Response:
        """Decide on it, as `veilstream approve` and `veilstream reject` do."""
        session, fields = await self._guard.form(request)
        one = await self._held(request)
        given = {name: " ".join(fields.get(name, "").split()) for name in FIELDS}
        if not one.seen:
            raise web.HTTPConflict(
                text="The files of this release are not here, so nobody can have read it. Nothing was recorded."
            )
        if fields.get("seen") != one.seen:
            raise web.HTTPConflict(text="The release is not the one that your page was about. Read it again.")
        wrong = _wrong(given, approvable=one.verdict is not None)
        if wrong:
            response = self._page(request, "release", page="held", one=one, wrong=wrong, given=given)
            response.set_status(web.HTTPUnprocessableEntity.status_code)
            return response
        session.notice, where = await _apart(partial(self._decided, one, given))
        return web.Response(status=303, headers={"Location": where})

    async def decisions(self, request: web.Request) -> web.Response:
        """`/decisions`: who decided what, and why."""
        made = await _apart(partial(releases.decided, self._folder.output))
        return self._page(request, "decisions", made=made)

    async def _held(self, request: web.Request) -> releases.Held:
        asked = request.match_info["publication"], int(request.match_info["number"])
        one = await _apart(partial(releases.one_of, self._folder.output, *asked))
        if one is None:
            raise web.HTTPNotFound(text="No such release is held here. If it was, the decisions say what became of it.")
        return one

    def _decided(self, one: releases.Held, given: Mapping[str, str]) -> tuple[str, str]:
        """Carry out a decision; return a notice for the operator, and the page that shows it."""
        output, release = self._folder.output, one.release
        subject = output if self._orders is None else self._orders.settings
        order: Order = "approve" if given["decision"] == "approve" else "reject"
        made = decide(
            subject, release.publication, release.number, order, by=given["by"], why=given["why"], output=output
        )
        name = f"Release {made.number} of {made.publication}"
        match made.status:
            case "ordered":
                where = f"is at offset {made.offset} of the delta topic"
                return f"The order to {order} release {made.number} of {made.publication} {where}. {OBEYS}", "/held"
            case "refused":
                return f"{name} stays held: the gate no longer passes ({'; '.join(made.reasons)}).", "/held"
            case "approved":
                return f"{name} is approved.", "/decisions"
            case _:
                return f"{name} is rejected.", "/decisions"

    async def style(self, _request: web.Request) -> web.Response:
        """`/style.css`: the report's style and the console's."""
        return web.Response(text=self._guard.pages.style, content_type="text/css")

    async def sign_in(self, request: web.Request) -> web.Response:
        """`/sign-in`: sign in by pasting the token."""
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


FIELDS = ("by", "why", "decision")
OBEYS = "The daemon obeys once it has read up to there."


def _wrong(given: Mapping[str, str], *, approvable: bool) -> str:
    """Return what is missing or wrong in the form of a decision; empty if it is complete."""
    missing = [text for name, text in ASKED.items() if not given[name]]
    if missing:
        return f"Nothing was recorded: {' and '.join(missing)} missing."
    for name in ("by", "why"):
        if len(given[name]) > LONGEST:
            return f"Nothing was recorded: {ASKED[name]} is longer than {LONGEST} characters."
        if not given[name].isprintable():
            return f"Nothing was recorded: {ASKED[name]} holds a control character."
    if given["decision"] == "approve" and not approvable:
        return "Nothing was recorded: the audit of this release is not here."
    return "" if given["decision"] in ("approve", "reject") else "Nothing was recorded: approve or reject."


ASKED = {"by": "your name", "why": "the reason", "decision": "the decision"}


async def _apart(work: Callable[[], Got]) -> Got:
    """In a thread: files and the broker take their time, and other browsers wait for nobody."""
    return await asyncio.to_thread(work)


def _policy_of_the_report() -> str:
    """Return the policy of the report: its one style sheet, known by its sum, and styles of bars."""
    style = (report_page.FOLDER / "style.css").read_bytes()
    digest = base64.b64encode(hashlib.sha256(style).digest()).decode()
    style_sources = f"style-src-elem 'sha256-{digest}'; style-src-attr 'unsafe-inline'"
    policy = HEADERS["Content-Security-Policy"].replace("style-src 'self'", style_sources)
    return policy.replace("form-action 'self'", "form-action 'none'")


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that browsers can come to; port 0 chooses one. InputError if it cannot be had."""
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
