"""Access to the console: one token for signing in, and a session with its own secrets for each browser."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from models.errors import InputError, kind_of

TOKEN_BYTES = 32
LEAST_TOKEN = 32
"""Characters of a token from a file. It cannot be guessed, so attempts need not be counted."""

IDLE_SECONDS = 8 * 3600.0
"""A working day: a browser without requests for so long must sign in again."""

MOST_SESSIONS = 64
"""A browser that signs in again and again fills no memory: the session that was quiet for longest ends."""


def new_token() -> str:
    """Return a token for one run of the console."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def read_token(path: Path) -> str:
    """Return the token of a file.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    InputError
        If others than its owner can read it, or it can be guessed.
    """
    try:
        mode = path.stat().st_mode
        text = path.read_text(encoding="ascii").strip() if stat.S_ISREG(mode) else ""
    except OSError as error:
        raise kind_of(error)(f"{path}: the token cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        text = ""
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise InputError(f"{path}: others than its owner can use the token; chmod 600, and make a new one")
    if len(text) < LEAST_TOKEN or not text.isprintable() or " " in text:
        raise InputError(f"{path}: no token of at least {LEAST_TOKEN} characters in one word; openssl rand -hex 32")
    return text


def same(first: str, other: str) -> bool:
    """Return whether two secrets are equal, in a time that reveals neither their lengths nor where they differ.

    Parameters
    ----------
    first, other
        The secrets.
    """
    return hmac.compare_digest(_digest(first), _digest(other))


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


@dataclass(slots=True)
class Session:
    """One browser. `csrf` is in each form, which no other site can read; `notice`: message of the next page."""

    csrf: str
    used: float
    notice: str = ""


@dataclass(slots=True)
class Sessions:
    """The token and the browsers that have shown it."""

    token: str
    clock: Callable[[], float] = time.monotonic
    _sessions: dict[bytes, Session] = field(default_factory=dict)

    def enter(self, token: str) -> str | None:
        """Return the name of a new session, for the cookie; None if the token is wrong.

        Parameters
        ----------
        token
            The token, as the browser sent it.
        """
        if not same(token, self.token):
            return None
        name = secrets.token_urlsafe(TOKEN_BYTES)
        self._forget()
        while len(self._sessions) >= MOST_SESSIONS:
            del self._sessions[min(self._sessions, key=lambda digest: self._sessions[digest].used)]
        self._sessions[_digest(name)] = Session(secrets.token_urlsafe(TOKEN_BYTES), self.clock())
        return name

    def of(self, name: str) -> Session | None:
        """Return the session of a cookie; None if there is none, or it has been idle too long.

        Parameters
        ----------
        name
            Value of the cookie.
        """
        self._forget()
        session = self._sessions.get(_digest(name))
        if session is not None:
            session.used = self.clock()
        return session

    def leave(self, name: str) -> None:
        """End a session.

        Parameters
        ----------
        name
            Value of the cookie.
        """
        self._sessions.pop(_digest(name), None)

    def _forget(self) -> None:
        oldest = self.clock() - IDLE_SECONDS
        for name in [name for name, session in self._sessions.items() if session.used < oldest]:
            del self._sessions[name]
