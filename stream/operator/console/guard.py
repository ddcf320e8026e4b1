"""Checks before every page: the requested name, session, secret of a form, headers of the answer.

No page holds a script, and the policy of each forbids one: text of a log that looks like markup can do nothing, even if
a template forgot to write it as text.
"""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from aiohttp import web

from models.errors import VeilstreamError
from stream.operator.console.address import Address
from stream.operator.console.pages import Pages
from stream.operator.console.sessions import Session, Sessions, same
from stream.values.visible import visible

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler, Middleware

log = logging.getLogger(__name__)

MOST_BODY = 16 * 1024
"""Bytes of a form: a name and a reason. Nobody sends a file here."""

POLICY = (
    "default-src 'none'; style-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    # `no-referrer` would also make browsers send `Origin: null` with our own forms
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Server": "veilstream",
}
STATUS_OF_EXIT = {2: 400, 3: 409, 4: 409}
"""HTTP status for the exit code that the command line would end with; 503 for errors that may pass later."""


@dataclass(frozen=True, slots=True)
class Guard:
    """The checks before a handler, and the clear page if one fails."""

    address: Address
    sessions: Sessions
    pages: Pages
    cookie: str

    def middlewares(self) -> list[Middleware]:
        """Return the middlewares, the outermost first."""
        return [self.answer, self.name, self.signed_in]

    @web.middleware
    async def answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Turn every error into one page, put the headers on, and write the line of the access log.

        Never the query, which holds the token once, and nothing of a form.
        """
        began = time.monotonic()
        response = await self._page_of(request, handler)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        log.info(
            "%s %s %d %.0f ms",
            visible(request.method),
            _path(request),
            response.status,
            1000 * (time.monotonic() - began),
        )
        return response

    async def _page_of(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except web.HTTPException as error:
            if error.status < web.HTTPBadRequest.status_code:
                return web.Response(status=error.status, headers=error.headers)
            text = error.text if error.text and error.text != _default(error) else ""
            response = self.refusal(request, error.status, text or WORDS.get(error.status, error.reason))
            if "Allow" in error.headers:
                response.headers["Allow"] = error.headers["Allow"]
            return response
        except VeilstreamError as error:
            return self.refusal(request, STATUS_OF_EXIT.get(error.exit_code, 503), str(error))
        except Exception as error:  # noqa: BLE001 - one page must not end the console
            # where and what kind, since a message could hold what a record holds
            place = traceback.extract_tb(error.__traceback__)[-1]
            log.error("%s in %s line %s, at %s", type(error).__name__, place.name, place.lineno, _path(request))
            return self.refusal(request, 500, FAILED)

    def refusal(self, request: web.Request, status: int, why: str) -> web.Response:
        """Return the page of an error.

        Parameters
        ----------
        request
            The request.
        status
            Status of HTTP.
        why
            The sentence that is shown.
        """
        # under another name the page may be a stranger's to read: it shows nothing of a session
        session = self.session(request) if self._origin(request) is not None else None
        html = self.pages.error(status, why, session=session)
        return web.Response(text=html, status=status, content_type="text/html")

    @web.middleware
    async def name(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse a request that was sent to another name, and a form that another site sent."""
        origin = self._origin(request)
        if origin is None:
            raise web.HTTPBadRequest(text="The console is not known under this name. Open it as it was printed.")
        if request.method not in ("GET", "HEAD"):
            sent = request.headers.get("Origin", origin)
            site = request.headers.get("Sec-Fetch-Site", "same-origin")
            if sent.lower() != origin.lower() or site != "same-origin":
                raise web.HTTPForbidden(text="This form was sent from another site. Nothing was changed.")
        return await handler(request)

    def _origin(self, request: web.Request) -> str | None:
        """Return the origin of the console in the browser; None if the name is not ours."""
        hosts = request.headers.getall("Host", [])
        if len(hosts) == 1:
            return self.address.origin_of(hosts[0])
        return None

    @web.middleware
    async def signed_in(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse a client without a session, in the same way for existing and missing pages."""
        if self.session(request) is None and not may_enter(request):
            raise web.HTTPUnauthorized(text=SIGN_IN)
        return await handler(request)

    def session(self, request: web.Request) -> Session | None:
        """Return the session of the browser's cookie."""
        return self.sessions.of(request.cookies.get(self.cookie, ""))

    async def form(self, request: web.Request) -> tuple[Session, dict[str, str]]:
        """Return a session and the fields of its form. 403 if the form's secret is missing or another session's."""
        fields = await fields_of(request)
        session = self.session(request)
        if session is None or not same(fields.get("csrf", ""), session.csrf):
            raise web.HTTPForbidden(text="The form is not of this session. Load the page again; nothing was changed.")
        return session, fields


def _path(request: web.Request) -> str:
    """Return the path as it was sent, on one line."""
    return visible(request.rel_url.raw_path)


SIGN_IN = "Sign in first: open the address with the token that veilstream serve printed, or write the token here."
FAILED = "The console failed at this page; its log has the error. Look at the decisions before you try again."

WORDS = {
    404: "There is no such page.",
    405: "This page does not answer to this method.",
    413: f"The form is larger than {MOST_BODY} bytes. Nothing was changed.",
}


def may_enter(request: web.Request) -> bool:
    """Return whether a request needs no session: it brings the token, or is for the style sheet."""
    if request.path == "/":
        return request.method == "GET" and "token" in request.query
    if request.path == "/sign-in":
        return request.method == "POST"
    return request.path == "/style.css" and request.method in ("GET", "HEAD")


async def fields_of(request: web.Request) -> dict[str, str]:
    """Return the fields of a form. 415 for anything but plain fields, 413 for a large one."""
    if request.content_type != "application/x-www-form-urlencoded":
        raise web.HTTPUnsupportedMediaType(text="The console takes forms only. Nothing was changed.")
    try:
        body = await asyncio.wait_for(request.read(), FORM_SECONDS)
        return dict(parse_qsl(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS))
    except TimeoutError:
        raise web.HTTPRequestTimeout(text="The form did not come. Nothing was changed.") from None
    except ValueError:  # not UTF-8, or too many fields
        raise web.HTTPBadRequest(text="The form cannot be read. Nothing was changed.") from None


MOST_FIELDS = 16

FORM_SECONDS = 30.0
"""For some kilobytes; a form that trickles in would hold its connection forever."""


def _default(error: web.HTTPException) -> str:
    return f"{error.status}: {error.reason}"
