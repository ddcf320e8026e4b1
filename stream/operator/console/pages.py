"""The console's pages: templates, the style of the report, and no script for a browser."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote

from stream.operator.approval import HeldRelease
from stream.operator.console.sessions import Session
from stream.operator.report import page as report_page
from stream.operator.report.templates import environment_of
from stream.operator.report.words import sentence
from stream.release.manifest import software

FOLDER = Path(__file__).parent
COUNTS = ("seen", "exposed", "pending", "late", "cuts", "cases")
"""Of a publication, as `veilstream status` prints them."""


def address_of(release: HeldRelease) -> str:
    """Return the page of a held release."""
    return f"/held/{quote(release.publication, safe='')}/{release.number}"


class Pages:
    """Renders a template for a session."""

    def __init__(self, folder_name: str) -> None:
        self._environment = environment_of(FOLDER, report_page.FOLDER)
        self._environment.globals |= {"software": software(), "where": folder_name, "counts": COUNTS}
        self._environment.globals |= {"signs": report_page.SIGNS}
        self._environment.filters |= {
            "number": report_page.number,
            "moment": report_page.moment,
            "sentence": sentence,
            "address": address_of,
        }
        styles = (report_page.FOLDER / "style.css", FOLDER / "console.css")
        self.style = "\n".join(path.read_text(encoding="utf-8") for path in styles)

    def render(self, name: str, session: Session | None, **values: Any) -> str:
        """Return a page. The session's notice is shown once."""
        notice = ""
        if session is not None:
            notice, session.notice = session.notice, ""
        shown: Mapping[str, Any] = {"csrf": session.csrf if session else None, "notice": notice, **values}
        return self._environment.get_template(f"{name}.html").render(shown)

    def error(self, status: int, why: str, *, session: Session | None) -> str:
        """Return the page of an error: what went wrong, and where to continue.

        Parameters
        ----------
        status
            Status of HTTP.
        why
            The sentence that is shown.
        session
            Session of the browser, if it has one.
        """
        phrases = {status.value: status.phrase for status in HTTPStatus} | {401: "Sign in"}
        return self.render("error", session, status=status, phrase=phrases.get(status, "Error"), why=why, page="")
