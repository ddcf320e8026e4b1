"""The pages of the console, and the server that answers them until it is stopped.

The console reads an output folder while a daemon may write there. The daemon does not import it.
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
    """The handlers of one output folder.

    Parameters
    ----------
    folder
        The output folder.
    guard
        Checks sessions, origins and forms.
    orders
        Sends commands to the daemon; None if the console was started without a configuration.
    """

    def __init__(self, folder: Folder, guard: Guard, orders: Orders | None) -> None:
        self._folder, self._guard, self._orders = folder, guard, orders
        self._report_policy = {"Content-Security-Policy": _policy_of_the_report()}

    def application(self) -> web.Application:
        """Return the application with all addresses; the guard checks each request."""
        application = web.Application(middlewares=self._guard.middlewares(), client_max_size=MOST_BODY)
        application.add_routes(
            [
                web.get("/", self.overview),
                web.get("/report", self.report),
                web.get("/papers/{publication}/{name}", self.paper),
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
        """`/`: show verdicts, held releases and the state of the daemon.

        With the token in the query: begin a session, and redirect to the address without the token.
        """
        if "token" in request.query:
            return self._begin_session(request, request.query["token"])
        shown = await _in_thread(self._folder.overview)
        return self._page(request, "overview", shown=shown, orders=self._orders, words=ORDERS)

    async def report(self, request: web.Request) -> web.Response:
        """`/report`: show the page that `veilstream report` writes, for the present state of the folder."""
        if not await _in_thread(self._folder.has_attempts):
            return self._page(request, "nothing", page="report")
        html = await _in_thread(self._folder.report)
        return web.Response(text=html, content_type="text/html", headers=self._report_policy)

    async def paper(self, request: web.Request) -> web.Response:
        """`/papers/PUBLICATION/NAME`: show the last dossier, or the page on the attacks that it names."""
        publication, name = request.match_info["publication"], request.match_info["name"]
        html = await _in_thread(partial(self._folder.paper, publication, name))
        if html is None:
            raise web.HTTPNotFound(text="There is no such document. Write it with veilstream dossier.")
        style = html.partition("<style>")[2].partition("</style>")[0]
        headers = {"Content-Security-Policy": _policy_of(style)}
        return web.Response(text=html, content_type="text/html", headers=headers)

    async def held(self, request: web.Request) -> web.Response:
        """`/held`: list the releases that wait for a decision."""
        waiting = await _in_thread(partial(releases.queue, self._folder.output))
        return self._page(request, "held", waiting=waiting)

    async def release(self, request: web.Request) -> web.Response:
        """`/held/PUBLICATION/N`: show a held release with the statement to sign and the form."""
        held_release = await self._held(request)
        empty_form = dict.fromkeys(FIELDS, "")
        return self._page(request, "release", page="held", held=held_release, wrong="", entered=empty_form)

    async def decide(self, request: web.Request) -> web.Response:
        """Record a decision, as `veilstream approve` and `veilstream reject` do."""
        session, fields = await self._guard.form(request)
        held_release = await self._held(request)
        entered = {name: " ".join(fields.get(name, "").split()) for name in FIELDS}
        if not held_release.seen:
            raise web.HTTPConflict(
                text="The files of this release are not on this host, so nobody can read it here. Nothing was recorded."
            )
        # The person has read the page that the browser shows. Its release may have been replaced since.
        if fields.get("seen") != held_release.seen:
            raise web.HTTPConflict(text="The release is not the one that your page showed. Read it again.")
        wrong = _problem_of(entered, approvable=held_release.verdict is not None)
        if wrong:
            response = self._page(request, "release", page="held", held=held_release, wrong=wrong, entered=entered)
            response.set_status(web.HTTPUnprocessableEntity.status_code)
            return response
        session.notice, next_page = await _in_thread(partial(self._carry_out, held_release, entered))
        return web.Response(status=303, headers={"Location": next_page})

    async def decisions(self, request: web.Request) -> web.Response:
        """`/decisions`: list all decisions with name and reason."""
        made = await _in_thread(partial(releases.decided, self._folder.output))
        return self._page(request, "decisions", made=made)

    async def _held(self, request: web.Request) -> releases.Held:
        publication, number = request.match_info["publication"], int(request.match_info["number"])
        held_release = await _in_thread(partial(releases.held_release, self._folder.output, publication, number))
        if held_release is None:
            raise web.HTTPNotFound(
                text="No such release is held here. If it was, the page of decisions shows its outcome."
            )
        return held_release

    def _carry_out(self, held_release: releases.Held, entered: Mapping[str, str]) -> tuple[str, str]:
        """Carry out a decision; return a notice for the operator, and the page that shows it."""
        output, release = self._folder.output, held_release.release
        subject = output if self._orders is None else self._orders.settings
        order: Order = "approve" if entered["decision"] == "approve" else "reject"
        made = decide(
            subject, release.publication, release.number, order, by=entered["by"], why=entered["why"], output=output
        )
        name = f"Release {made.number} of {made.publication}"
        match made.status:
            case "ordered":
                name_of_order = f"The order to {order} release {made.number} of {made.publication}"
                return f"{name_of_order} is at offset {made.offset} of the delta topic. {OBEYS}", "/held"
            case "refused":
                return f"{name} stays held: the gate no longer passes ({'; '.join(made.reasons)}).", "/held"
            case "approved":
                return f"{name} is approved.", "/decisions"
            case _:
                return f"{name} is rejected.", "/decisions"

    async def style(self, _request: web.Request) -> web.Response:
        """`/style.css`: return the styles of report and console."""
        return web.Response(text=self._guard.pages.style, content_type="text/css")

    async def sign_in(self, request: web.Request) -> web.Response:
        """`/sign-in`: sign in by pasting the token."""
        return self._begin_session(request, (await fields_of(request)).get("token", "").strip())

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
            raise web.HTTPConflict(text="The console has no configuration of a daemon: start it with -c FILE.")
        session.notice = await _in_thread(partial(self._orders.give, fields.get("order"), fields.get("publication")))
        return web.Response(status=303, headers={"Location": "/"})

    def _begin_session(self, request: web.Request, token: str) -> web.Response:
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


def _problem_of(entered: Mapping[str, str], *, approvable: bool) -> str:
    """Return the faults of the form of a decision as text; empty if it is complete."""
    missing = [text for name, text in FIELD_NAMES.items() if not entered[name]]
    if missing:
        return f"Nothing was recorded: {' and '.join(missing)} missing."
    for name in ("by", "why"):
        if len(entered[name]) > LONGEST:
            return f"Nothing was recorded: {FIELD_NAMES[name]} is longer than {LONGEST} characters."
        if not entered[name].isprintable():
            return f"Nothing was recorded: {FIELD_NAMES[name]} holds a control character."
    if entered["decision"] == "approve" and not approvable:
        return "Nothing was recorded: the audit of this release is not here."
    return "" if entered["decision"] in ("approve", "reject") else "Nothing was recorded: approve or reject."


FIELD_NAMES = {"by": "your name", "why": "the reason", "decision": "the decision"}


async def _in_thread(work: Callable[[], Got]) -> Got:
    """Run work in a thread, since files and the broker are slow and other browsers must not wait."""
    return await asyncio.to_thread(work)


def _policy_of_the_report() -> str:
    """Return the policy of the report: its style sheet, named by its SHA-256, and style attributes of its bars."""
    return _policy_of((report_page.FOLDER / "style.css").read_text(encoding="utf-8"))


def _policy_of(style: str) -> str:
    """Return the policy of a page with one style sheet, named by its SHA-256. It sends no form and runs no script."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    style_sources = f"style-src-elem 'sha256-{digest}'; style-src-attr 'unsafe-inline'"
    policy = HEADERS["Content-Security-Policy"].replace("style-src 'self'", style_sources)
    return policy.replace("form-action 'self'", "form-action 'none'")


def listen(host: str, port: int) -> socket.socket:
    """Open a socket for browsers.

    Parameters
    ----------
    host, port
        The address. Port 0 chooses a free one.

    Raises
    ------
    InputError
        If the address is taken or not allowed.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise InputError(f"serve: {host} port {port}: {error.strerror}; --port 0 chooses a free one") from None


def serve(console: Console, listening: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until SIGTERM or Ctrl-C, then finish the open requests.

    Parameters
    ----------
    console
        The console.
    listening
        Socket that listens already.
    ready
        Called as soon as a browser can connect.
    """
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
"""Seconds that requests may still take when the console ends."""
